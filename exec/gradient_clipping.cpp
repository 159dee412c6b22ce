#include "exec/gradient_clipping.h"

#include "schedules/error.h"

namespace unlatch::exec {

GradientClipping::GradientClipping(const TaskGraph& graph, const models::GradientClip& clip,
                                   std::vector<StageState>& stages, const TiedGradients* tied)
    : graph_(graph),
      clip_(clip),
      stages_(stages),
      tied_(tied),
      squares_(static_cast<std::size_t>(graph.shape().stages_a_copy())) {
  require(clip.of_stage || graph.learning().joint_updates,
          "{}: its stages update before the gradients of all others are there, so no gradient can "
          "be clipped by a norm over the whole model",
          graph.schedule());
  require(graph.shape().copies == 1 || graph.learning().agreement.kind != Agreement::Kind::delayed,
          "{}: its server takes the gradients as the replicas found them; they cannot be clipped",
          graph.schedule());
  require(
      !clip.of_stage || tied == nullptr,
      "{}: the norms of its first and its last stage would scale the gradient of the table that "
      "the head is tied to by two different factors; clip by the norm of the model, or untie "
      "the head",
      graph.schedule());
}

void GradientClipping::note_whole(Stage k) {
  if (clip_.of_stage || graph_.shape().copy_of(k) > 0) return;
  const Tensor own = tied_ == nullptr ? state(k).gradient : tied_->own_gradient(k);
  squares_[k.value] = state(k).module->math().square_sum(own);
}

void GradientClipping::visit_state(StateVisitor& visitor) {
  for (std::size_t k = 0; k < squares_.size(); ++k) {
    visitor.tensor(fmt::format("squares of stage {}", k), squares_[k]);
  }
}

std::vector<Tensor> GradientClipping::clip(Stage k) {
  StageState& stage = state(k);
  ParameterMath& math = stage.module->math();
  std::vector<Tensor> squares = squares_;
  if (clip_.of_stage) squares = {math.square_sum(stage.gradient)};
  if (tied_ != nullptr) squares.push_back(math.square_sum(tied_->sum(k)));
  math.clip(clip_.most, squares, stage.gradient);
  return squares;
}

}  // namespace unlatch::exec
