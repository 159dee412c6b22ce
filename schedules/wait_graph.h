// WaitGraph: Boost.Graph's view of rows of predecessors; an edge v -> u says "v waits for u".
#pragma once

#include <boost/graph/graph_traits.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/property_map/property_map.hpp>
#include <cstddef>
#include <utility>

namespace unlatch {

/// A non-owning adaptor. Rows has size(), degree(v) and target(v, j); vertices are 0..size()-1.
/// Models VertexListGraph, IncidenceGraph and AdjacencyGraph, which is what the algorithms ask.
template <class Rows>
class WaitGraph {
 public:
  explicit WaitGraph(const Rows& rows) : rows_(&rows) {}
  const Rows& rows() const { return *rows_; }

  using vertex_descriptor = int;
  using edge_descriptor = std::pair<int, int>;  ///< vertex, place in its row
  using directed_category = boost::directed_tag;
  using edge_parallel_category = boost::allow_parallel_edge_tag;
  struct traversal_category : boost::vertex_list_graph_tag,
                              boost::incidence_graph_tag,
                              boost::adjacency_graph_tag {};
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;

  struct EdgeAt {
    int vertex = 0;
    edge_descriptor operator()(int place) const { return {vertex, place}; }
  };
  struct TargetAt {
    const Rows* rows = nullptr;
    int vertex = 0;
    int operator()(int place) const { return rows->target(vertex, place); }
  };
  using vertex_iterator = boost::counting_iterator<int>;
  using out_edge_iterator = boost::transform_iterator<EdgeAt, boost::counting_iterator<int>>;
  using adjacency_iterator =
      boost::transform_iterator<TargetAt, boost::counting_iterator<int>, int>;
  using in_edge_iterator = void;
  using edge_iterator = void;

  static constexpr int null_vertex() { return -1; }

  friend std::pair<vertex_iterator, vertex_iterator> vertices(const WaitGraph& g) {
    return {vertex_iterator(0), vertex_iterator(g.rows_->size())};
  }
  friend std::size_t num_vertices(const WaitGraph& g) { return g.rows_->size(); }
  friend std::pair<out_edge_iterator, out_edge_iterator> out_edges(int v, const WaitGraph& g) {
    using Place = boost::counting_iterator<int>;
    return {out_edge_iterator(Place(0), EdgeAt{v}),
            out_edge_iterator(Place(g.rows_->degree(v)), EdgeAt{v})};
  }
  friend std::size_t out_degree(int v, const WaitGraph& g) { return g.rows_->degree(v); }
  friend std::pair<adjacency_iterator, adjacency_iterator> adjacent_vertices(int v,
                                                                             const WaitGraph& g) {
    using Place = boost::counting_iterator<int>;
    const TargetAt target{g.rows_, v};
    return {adjacency_iterator(Place(0), target),
            adjacency_iterator(Place(g.rows_->degree(v)), target)};
  }
  friend int source(edge_descriptor e, const WaitGraph&) { return e.first; }
  friend int target(edge_descriptor e, const WaitGraph& g) {
    return g.rows_->target(e.first, e.second);
  }
  friend boost::typed_identity_property_map<int> get(boost::vertex_index_t, const WaitGraph&) {
    return {};
  }

 private:
  const Rows* rows_;
};

}  // namespace unlatch

namespace boost {
template <class Rows>
struct property_map<unlatch::WaitGraph<Rows>, vertex_index_t> {
  using type = typed_identity_property_map<int>;
  using const_type = type;
};
}  // namespace boost
