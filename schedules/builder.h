// Builder: turns the programs of a schedule into a graph, or says which rules they break.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "schedules/schedule.h"

namespace unlatch {

/// Numbers the items of all programs as nodes (rank by rank, in program order), adds the edges of
/// the mathematics and renumbers the nodes topologically. For one use.
class Builder {
 public:
  explicit Builder(const Schedule& schedule);

  /// Every broken rule; empty when build() succeeds.
  std::vector<Violation> violations();
  /// Throws Error with the first broken rule.
  TaskGraph build();

 private:
  using Node = std::int32_t;
  static constexpr Node none = -1;
  struct NodeEdge {
    Node from = none;
    EdgeKind kind = EdgeKind::order;
  };
  using Item = Program::Item;

  // Nodes and their index.
  void make_lanes();
  void make_nodes();
  void add_node(const Item& item, Rank rank, int column);
  void add_barrier_nodes();
  bool in_range(const Item& item) const;
  Node find(Op op, Stage k, MicroBatch i) const;
  int lane_index(Rank rank, Engine engine) const;
  std::uint16_t find_lane(const Lane& lane) const;

  // What joins the copies of a model (builder_copies.cpp).
  const Agreement& agreement() const { return schedule_.learning().agreement; }
  bool has_all_reduces() const {
    return shape_.copies > 1 && !is_served(shape_, schedule_.learning());
  }
  int updates_an_all_reduce() const;
  void collect_updates();
  void add_all_reduce_nodes();
  void serve_updates();
  std::vector<Node> served_in_order(Stage model_stage);
  void derive_served_versions(Stage k);
  void join_copies(Node node);
  void join_summed(Node node);
  void join_averaged(Node node);
  void join_served(Node node);
  void join_delayed(Node node);
  Node all_reduce_of(Stage k, int number) const;
  void add_all_reduce_edges();

  // What the programs must hold, whatever their order (builder_checks.cpp).
  void check_programs();
  void check_work_of(Stage k);
  bool check_backward_of(Stage k, MicroBatch i);
  void check_partners();
  void check_order_of(Rank rank);
  void check_updates_of(Rank rank);
  void report(std::string rule, const std::vector<Node>& nodes, std::string message);
  Node first_barrier() const { return first_node_[shape_.ranks()]; }
  Node first_all_reduce() const { return first_barrier() + std::ssize(before_barrier_); }
  Rank rank_of(Node node) const { return lanes_[tasks_[node].lane].rank; }
  std::string place(Node node) const;

  // Versions, flags and edges, walking each program once (builder.cpp).
  bool prepare();
  void derive_versions(Rank rank);
  void check_version(Node node, int current);
  bool keeps_only_input(Stage k, MicroBatch i) const;
  void add_edges_of(Rank rank);
  void add_edges_into(Node node, const Item& item);
  void add_data_edges(Node node);
  void add_recompute_edges(Node node, bool beside);
  void add_queue_edge(Node node, int capacity);
  void add_barrier_edges();
  void add_edge(Node from, EdgeKind kind) { edges_.push_back({from, kind}); }
  Node output_of_forward(Stage k, MicroBatch i) const;
  Node output_of_backward(Stage k, MicroBatch i) const;
  GradientSource gradient_source() const { return schedule_.learning().local_gradients.source; }
  bool takes_gradient(const Task& task) const;
  Node gradient_taken_by(Stage k, MicroBatch i) const;
  Node output_taken_by(Stage k, MicroBatch i) const;

  // Topological order (builder_order.cpp).
  bool number_nodes();
  Node missing_for(Node node) const;
  Violation deadlock() const;
  TaskGraph assemble() const;

  const Schedule& schedule_;
  const Shape shape_;
  std::vector<Violation> violations_;
  bool out_of_range_ = false;  ///< some task names a stage or micro-batch that there is not

  std::vector<Lane> lanes_;
  std::vector<std::array<int, 2>> lanes_of_rank_;  ///< compute, recompute

  std::vector<Task> tasks_;            ///< by node
  std::vector<std::int32_t> columns_;  ///< by node: place in its program
  bool from_file_ = false;             ///< places are rows and columns of a file
  /// By rank; then of the barriers; then of the AR of each model stage, where there are copies.
  std::vector<Node> first_node_;
  std::array<std::vector<Node>, 12> index_;  ///< by op, at stage * all micro-batches + micro-batch

  std::vector<std::uint32_t> first_edge_;  ///< by node, into edges_
  std::vector<NodeEdge> edges_;
  std::vector<Node> lane_end_;                     ///< newest node of each lane while walking
  std::vector<std::vector<Node>> before_barrier_;  ///< what each barrier waits for
  std::vector<std::vector<Node>> all_reduces_;     ///< by model stage, in order
  std::vector<std::vector<Node>> joined_;          ///< by AR, counted from the first: its inputs
  std::vector<Node> newest_gradient_;              ///< by stage, while walking
  std::vector<std::vector<Node>> pending_;         ///< by stage: its next node waits for them
  std::vector<std::vector<Node>> updates_;         ///< by stage, where there are copies
  std::vector<Node> served_before_;                ///< by U of a server: the U before it
  Node phase_ = none;                              ///< pending after(): the next node waits for it
  int barriers_passed_ = 0;

  std::vector<Node> order_;           ///< nodes in topological order
  std::vector<std::int32_t> number_;  ///< by node: its place there; -1 while it has none
};

}  // namespace unlatch
