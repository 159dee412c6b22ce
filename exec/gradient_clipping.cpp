#include "exec/gradient_clipping.h"

#include <array>

#include "schedules/error.h"

namespace unlatch::exec {

GradientClipping::GradientClipping(const TaskGraph& graph, const models::GradientClip& clip,
                                   std::vector<StageState>& stages)
    : graph_(graph),
      clip_(clip),
      stages_(stages),
      gradients_a_batch_(graph.shape().micro_batches / graph.shape().copies),
      gradients_(stages.size()),
      squares_(static_cast<std::size_t>(graph.shape().stages_a_copy())) {
  require(clip.of_stage || graph.learning().joint_updates,
          "{}: its stages update before the gradients of all others are there, so no gradient can "
          "be clipped by a norm over the whole model",
          graph.schedule());
  require(graph.shape().copies == 1 || graph.learning().agreement.kind != Agreement::Kind::delayed,
          "{}: its server takes the gradients as the replicas found them; they cannot be clipped",
          graph.schedule());
}

void GradientClipping::note_gradient(const Task& task) {
  if (clip_.of_stage || graph_.shape().copies > 1) return;
  int& gradients = gradients_[task.stage.value];
  if (++gradients < gradients_a_batch_) return;
  gradients = 0;
  take_squares(task.stage);
}

void GradientClipping::note_sum(const Task& task) {
  if (!clip_.of_stage) take_squares(task.stage);
}

void GradientClipping::visit_state(StateVisitor& visitor) {
  for (int& gradients : gradients_) visitor.number(gradients);
  for (std::size_t k = 0; k < squares_.size(); ++k) {
    visitor.tensor(fmt::format("squares of stage {}", k), squares_[k]);
  }
}

void GradientClipping::take_squares(Stage k) {
  squares_[graph_.shape().model_stage(k).value] =
      state(k).module->math().square_sum(state(k).gradient);
}

void GradientClipping::clip(const Task& task) {
  StageState& stage = state(task.stage);
  ParameterMath& math = stage.module->math();
  if (!clip_.of_stage) return math.clip(clip_.most, squares_, stage.gradient);
  const std::array own{math.square_sum(stage.gradient)};
  math.clip(clip_.most, own, stage.gradient);
}

}  // namespace unlatch::exec
