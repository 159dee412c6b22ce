#include "exec/classifier_head.h"

#include <utility>

namespace unlatch::exec {

ClassifierHead::ClassifierHead(std::unique_ptr<StageModule> net)
    : net_(std::move(net)), weights_(net_->initial_weights()), gradient_(net_->zero_gradient()) {}

void ClassifierHead::visit_state(StateVisitor& visitor) {
  visitor.parameters("weights", weights_);
  visitor.parameters("gradient", gradient_);
  net_->visit_state(visitor);
}

/// The loss itself is nobody's affair, so that no device is waited for.
Tensor ClassifierHead::gradient(const Tensor& output, const Tensor& target, double scale,
                                Workspace& workspace) {
  std::unique_ptr<StageModule::Tape> tape;
  const Tensor logits =
      net_->forward(weights_, output, StageModule::Pass::normal, &tape, workspace);
  Tensor error;
  net_->report_loss(logits, target, scale, &error, workspace, [](const Loss&) {});
  return net_->backward(weights_, *tape, error, 1, true, gradient_, workspace);
}

}  // namespace unlatch::exec
