// TiedGradients: the sum of the gradients of a table that first and last stage hold a copy of each.
#pragma once

#include <vector>

#include "exec/stage_state.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// Works on the states of all stages, which must outlive it, in the graph of a schedule
/// with_joint_updates(). Each of the two stages keeps what it found when that is whole, since the
/// update of the other may come at any time from then on.
class TiedGradients {
 public:
  /// Throws Error for a graph whose updates do not wait for the gradients of all stages, and unless
  /// first and last stage of every copy of the model, and no other, hold a table of one size.
  TiedGradients(const TaskGraph& graph, std::vector<StageState>& stages);

  /// The gradient of a batch is whole.
  void note_whole(Stage k);
  /// Of the first stage and the last, in this order, where this stage of the same copy of the model
  /// reads it.
  Tensor sum(Stage k) const;
  /// Puts the sum in the place of a stage's part of it, before the step of U.
  void replace(Stage k);
  /// The part of a stage's gradient that is not tied.
  Tensor own_gradient(Stage k) const;
  void visit_state(StateVisitor& visitor);

 private:
  const StageState& state(Stage k) const { return stages_[k.value]; }
  std::size_t tied_bytes(Stage k) const { return state(k).module->tied_bytes(); }
  Tensor tied_gradient(Stage k) const;

  const TaskGraph& graph_;
  std::vector<StageState>& stages_;
  std::vector<Tensor> found_;  ///< by stage, of the newest whole batch; empty of those between
};

}  // namespace unlatch::exec
