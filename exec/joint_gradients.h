// JointGradients: what a batch's gradients go through between the last backward and the updates.
#pragma once

#include <optional>
#include <vector>

#include "exec/gradient_clipping.h"
#include "exec/tied_gradients.h"

namespace unlatch::exec {

/// Works on the states of all stages, which must outlive it.
class JointGradients {
 public:
  /// Whether stages hold copies of one table.
  static bool are_tied(const std::vector<StageState>& stages);

  /// Throws Error like TiedGradients and GradientClipping.
  JointGradients(const TaskGraph& graph, const std::optional<models::GradientClip>& clip,
                 std::vector<StageState>& stages);

  /// After B and W: the last of a batch ends a gradient.
  void note_gradient(const Task& task);
  /// After AR.
  void note_sum(const Task& task);
  /// Before the step of U: sums what is tied, then clips. Returns what GradientClipping::clip()
  /// does, nothing where nothing is clipped.
  std::vector<Tensor> prepare(Stage k);
  void visit_state(StateVisitor& visitor);

 private:
  void note_whole(Stage k);

  const TaskGraph& graph_;
  int gradients_a_batch_;       ///< of a stage
  std::vector<int> gradients_;  ///< by stage, since its last whole batch
  std::optional<TiedGradients> tied_;
  std::optional<GradientClipping> clipping_;
};

}  // namespace unlatch::exec
