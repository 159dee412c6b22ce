// GradientClipping: the norms of a run's gradients, and the gradients scaled down to the largest.
#pragma once

#include <vector>

#include "exec/stage_state.h"
#include "models/gradient_clip.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// Works on the states of all stages, which must outlive it. A norm over the whole model takes the
/// graph of a schedule with_joint_updates(). Heads of stages are left as they are.
class GradientClipping {
 public:
  /// Throws Error for a graph whose updates do not wait for a norm over the model, and for one
  /// whose copies take their gradients without an update of their own.
  GradientClipping(const TaskGraph& graph, const models::GradientClip& clip,
                   std::vector<StageState>& stages);

  /// After B and W: the last of a batch ends a gradient.
  void note_gradient(const Task& task);
  /// After AR.
  void note_sum(const Task& task);
  /// Before the step of U.
  void clip(const Task& task);
  void visit_state(StateVisitor& visitor);

 private:
  StageState& state(Stage k) { return stages_[k.value]; }
  void take_squares(Stage k);

  const TaskGraph& graph_;
  models::GradientClip clip_;
  std::vector<StageState>& stages_;
  int gradients_a_batch_;        ///< of a stage
  std::vector<int> gradients_;   ///< by stage, since its last whole batch
  std::vector<Tensor> squares_;  ///< by stage of the model, of the newest batch
};

}  // namespace unlatch::exec
