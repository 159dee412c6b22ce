// GradientClipping: the norms of a run's gradients, and the gradients scaled down to the largest.
#pragma once

#include <vector>

#include "exec/stage_state.h"
#include "exec/tied_gradients.h"
#include "models/gradient_clip.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// Works on the states of all stages and on the gradients that are tied, null if none are; both
/// must outlive it. A norm over the whole model takes the graph of a schedule with_joint_updates().
/// Heads of stages are left as they are.
class GradientClipping {
 public:
  /// Throws Error for a graph whose updates do not wait for a norm over the model, for one whose
  /// copies take their gradients without an update of their own, and for norms of single stages
  /// that hold copies of one table.
  GradientClipping(const TaskGraph& graph, const models::GradientClip& clip,
                   std::vector<StageState>& stages, const TiedGradients* tied);

  /// The gradient of a batch is whole.
  void note_whole(Stage k);
  /// Before the step of U, once what is tied has been summed. Returns the sums of squares, of its
  /// parts, whose root is the norm; each a double where the stage computes.
  std::vector<Tensor> clip(Stage k);
  void visit_state(StateVisitor& visitor);

 private:
  StageState& state(Stage k) { return stages_[k.value]; }

  const TaskGraph& graph_;
  models::GradientClip clip_;
  std::vector<StageState>& stages_;
  const TiedGradients* tied_;
  std::vector<Tensor> squares_;  ///< by stage of the model, of the newest batch; without the tied
};

}  // namespace unlatch::exec
