#include "exec/joint_gradients.h"

#include <algorithm>

namespace unlatch::exec {

bool JointGradients::are_tied(const std::vector<StageState>& stages) {
  return std::ranges::any_of(
      stages, [](const StageState& stage) { return stage.module->tied_bytes() > 0; });
}

JointGradients::JointGradients(const TaskGraph& graph,
                               const std::optional<models::GradientClip>& clip,
                               std::vector<StageState>& stages)
    : graph_(graph),
      gradients_a_batch_(graph.shape().micro_batches / graph.shape().copies),
      gradients_(stages.size()) {
  if (are_tied(stages)) tied_.emplace(graph, stages);
  if (clip) clipping_.emplace(graph, *clip, stages, tied_ ? &*tied_ : nullptr);
}

void JointGradients::note_gradient(const Task& task) {
  if (graph_.shape().copies > 1) return;
  int& gradients = gradients_[task.stage.value];
  if (++gradients < gradients_a_batch_) return;
  gradients = 0;
  note_whole(task.stage);
}

void JointGradients::note_sum(const Task& task) {
  for (const Stage k : graph_.shape().in_all_copies(task.stage)) note_whole(k);
}

void JointGradients::note_whole(Stage k) {
  if (tied_) tied_->note_whole(k);
  if (clipping_) clipping_->note_whole(k);
}

std::vector<Tensor> JointGradients::prepare(Stage k) {
  if (tied_) tied_->replace(k);
  return clipping_ ? clipping_->clip(k) : std::vector<Tensor>{};
}

void JointGradients::visit_state(StateVisitor& visitor) {
  for (int& gradients : gradients_) visitor.number(gradients);
  if (tied_) tied_->visit_state(visitor);
  if (clipping_) clipping_->visit_state(visitor);
}

}  // namespace unlatch::exec
