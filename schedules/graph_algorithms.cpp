#include "schedules/graph_algorithms.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/transitive_reduction.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <limits>
#include <utility>

#include "schedules/error.h"
#include "schedules/wait_graph.h"

namespace unlatch {
namespace {

/// The predecessors of each node, copied into compressed rows.
struct CopiedRows {
  std::vector<std::uint32_t> first{0};
  std::vector<int> to;

  CopiedRows(int nodes, const Predecessors& predecessors) {
    first.reserve(nodes + 1);
    for (int node = 0; node < nodes; ++node) {
      predecessors(node, [this](int from) { to.push_back(from); });
      first.push_back(static_cast<std::uint32_t>(to.size()));
    }
  }
  int size() const { return static_cast<int>(first.size()) - 1; }
  int degree(int v) const { return static_cast<int>(first[v + 1] - first[v]); }
  int target(int v, int j) const { return to[first[v] + j]; }
};

/// A task graph's own rows, and one vertex more that waits for every task: the end of the run.
struct TaskRows {
  const TaskGraph& graph;
  bool with_end = false;

  int size() const { return graph.size() + (with_end ? 1 : 0); }
  int degree(int v) const {
    if (v == graph.size()) return graph.size();
    return static_cast<int>(graph.edges_into(TaskId{v}).size());
  }
  int target(int v, int j) const {
    return v == graph.size() ? j : graph.edges_into(TaskId{v})[j].from().value;
  }
};

/// Breadth-first searches for the shortest way from a node back to itself.
class CycleSearch {
 public:
  CycleSearch(const CopiedRows& rows, const std::vector<int>& component)
      : rows_(rows), component_(component), came_from_(rows.size()), seen_in_(rows.size(), -1) {}

  /// Inside the component of `start`; empty if there is none.
  std::vector<int> through(int start) {
    std::vector<int> queue{start};
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const int v = queue[head];
      for (int j = 0; j < rows_.degree(v); ++j) {
        const int u = rows_.target(v, j);
        if (component_[u] != component_[start]) continue;
        if (u == start) return way_back(start, v);
        if (std::exchange(seen_in_[u], start) == start) continue;
        came_from_[u] = v;
        queue.push_back(u);
      }
    }
    return {};
  }

 private:
  std::vector<int> way_back(int start, int end) const {
    std::vector<int> cycle;
    for (int v = end; v != start; v = came_from_[v]) cycle.push_back(v);
    cycle.push_back(start);
    std::reverse(cycle.begin(), cycle.end());
    return cycle;
  }

  const CopiedRows& rows_;
  const std::vector<int>& component_;
  std::vector<int> came_from_;
  std::vector<int> seen_in_;  ///< the start of the search that saw a node last
};

}  // namespace

std::vector<int> shortest_cycle(int nodes, const Predecessors& predecessors) {
  const CopiedRows rows(nodes, predecessors);
  std::vector<int> component(nodes);
  const int components = boost::strong_components(
      WaitGraph(rows), boost::make_iterator_property_map(
                           component.begin(), boost::typed_identity_property_map<int>()));
  std::vector<int> sizes(components, 0);
  for (const int c : component) ++sizes[c];
  int smallest = -1;
  for (int c = 0; c < components; ++c) {
    if (sizes[c] > 1 && (smallest < 0 || sizes[c] < sizes[smallest])) smallest = c;
  }
  // A single node that waits for itself is a component of its own, hence the case smallest < 0.
  CycleSearch search(rows, component);
  std::vector<int> best;
  const std::int64_t budget = 2'000'000;  // node visits; keeps a knot of a million tasks quick
  const std::int64_t starts =
      smallest < 0 ? nodes : std::clamp<std::int64_t>(budget / sizes[smallest], 1, 1000);
  std::int64_t tried = 0;
  for (int v = 0; v < nodes && tried < starts; ++v) {
    if (smallest >= 0 && component[v] != smallest) continue;
    ++tried;
    std::vector<int> cycle = search.through(v);
    if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = std::move(cycle);
  }
  return best;
}

std::string cycle_text(const std::vector<std::string>& places) {
  std::string text = fmt::format(
      "deadlock: these {} tasks wait for each other, each for the next: ", places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places.size() > 12 && i == 5) {
      text += fmt::format("... ({} more) ... -> ", places.size() - 10);
      i = places.size() - 5;
    }
    text += fmt::format("{} -> ", places[i]);
  }
  if (!places.empty()) text += places.front();
  return text;
}

std::vector<TaskId> critical_path(const TaskGraph& graph,
                                  const std::function<long long(TaskId)>& length) {
  const TaskRows rows{graph, true};
  const WaitGraph waits(rows);
  const int end = graph.size();
  std::vector<long long> distance(rows.size());
  std::vector<int> next(rows.size());
  // Longest paths: lengths are negated and the shortest way is taken. v -> u costs length(u).
  const auto weight = boost::make_function_property_map<WaitGraph<TaskRows>::edge_descriptor>(
      [&](const auto& edge) { return -length(TaskId{rows.target(edge.first, edge.second)}); });
  const boost::typed_identity_property_map<int> index;
  boost::dag_shortest_paths(
      waits, end,
      boost::distance_map(boost::make_iterator_property_map(distance.begin(), index))
          .predecessor_map(boost::make_iterator_property_map(next.begin(), index))
          .weight_map(weight)
          .vertex_index_map(index));
  int first = end;
  for (int v = 0; v < end; ++v) {
    if (first == end || distance[v] < distance[first]) first = v;
  }
  std::vector<TaskId> path;
  for (int v = first; v != end; v = next[v]) path.push_back(TaskId{v});
  return path;
}

std::vector<std::pair<TaskId, TaskId>> transitive_reduction(const TaskGraph& graph) {
  require(graph.size() <= 20'000, "transitive reduction of {} tasks: at most 20000 are drawn",
          graph.size());
  const TaskRows rows{graph};
  using Reduced = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
  Reduced reduced;
  std::vector<Reduced::vertex_descriptor> to_reduced(rows.size());
  const boost::typed_identity_property_map<int> index;
  boost::transitive_reduction(WaitGraph(rows), reduced,
                              boost::make_iterator_property_map(to_reduced.begin(), index), index);
  std::vector<int> original(rows.size());
  for (int v = 0; v < rows.size(); ++v) original[to_reduced[v]] = v;
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (const auto edge : boost::make_iterator_range(boost::edges(reduced))) {
    edges.emplace_back(TaskId{original[target(edge, reduced)]},
                       TaskId{original[source(edge, reduced)]});
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

}  // namespace unlatch
