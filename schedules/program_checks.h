// ProgramChecks: what the programs of a schedule must hold, whatever their order; names what they
// break.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "schedules/program_facts.h"
#include "schedules/violation.h"

namespace unlatch {

/// Numbers the tasks of all programs as nodes, rank by rank and in program order, and looks at
/// each. Only a schedule that does not run to its end is looked at in this way.
class ProgramChecks {
 public:
  ProgramChecks(const Schedule& schedule, const ProgramFacts& facts);

  const std::vector<Violation>& violations() const& { return violations_; }
  /// The row of the program of a node and its column there.
  std::pair<int, int> row_and_column(std::int32_t node) const;

 private:
  using Node = std::int32_t;
  static constexpr Node none = -1;
  using Item = ProgramItem;

  void add_nodes();
  void add_node(const Item& item, Rank rank, int column);
  void index_node(const Item& item, Node node);
  bool in_range(const Item& item) const;
  Node find(Op op, Stage k, MicroBatch i) const;
  Rank rank_of(Node node) const { return ranks_[node]; }
  std::string place(Node node) const;
  void report(std::string rule, const std::vector<Node>& nodes, std::string message);

  void check_barriers();
  void check_copies();
  void check_server_order();
  void check_work_of(Stage k);
  bool check_backward_of(Stage k, MicroBatch i);
  void check_partners();
  void check_order_of(Rank rank);
  void check_updates_of(Rank rank);
  void check_versions_of(Rank rank);

  Node output_of_forward(Stage k, MicroBatch i) const;
  Node output_of_backward(Stage k, MicroBatch i) const;
  bool takes_gradient(const Task& task) const;
  Node gradient_taken_by(Stage k, MicroBatch i) const;
  Node output_taken_by(Stage k, MicroBatch i) const;

  const Schedule& schedule_;
  const ProgramFacts& facts_;
  const Shape shape_;
  std::vector<Violation> violations_;
  bool out_of_range_ = false;  ///< some task names a stage or micro-batch that there is not
  bool from_file_ = false;     ///< places are rows and columns of a file

  std::vector<Task> tasks_;                  ///< by node; without lanes
  std::vector<Rank> ranks_;                  ///< by node
  std::vector<std::int32_t> columns_;        ///< by node: place in its program
  std::vector<int> read_versions_;           ///< by node: what the item asks for
  std::vector<Node> first_node_;             ///< by rank
  std::array<std::vector<Node>, 12> index_;  ///< by op, at stage * all micro-batches + micro-batch
};

}  // namespace unlatch
