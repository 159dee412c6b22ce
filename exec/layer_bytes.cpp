#include "exec/layer_bytes.h"

#include <utility>

namespace unlatch::exec {

LayerBytesRunner::LayerBytesRunner(std::vector<StageModule*> modules, Feed& feed)
    : modules_(std::move(modules)), feed_(feed), tapes_(modules_.size()), bytes_(modules_.size()) {
  for (std::size_t j = 0; j < modules_.size(); ++j) {
    weights_.push_back(modules_[j]->initial_weights());
    bytes_[j].parameters = weights_[j].bytes();
  }
}

void LayerBytesRunner::run(const Task& task, Workspace& workspace) {
  switch (task.op) {
    case Op::forward:
      return forward(task, workspace);
    case Op::backward_input:
      return backward_input(task, workspace);
    case Op::backward_weight:
      tapes_[static_cast<std::size_t>(task.stage.value)].reset();
      return;
    default:
      return;
  }
}

void LayerBytesRunner::forward(const Task& task, Workspace& workspace) {
  const auto j = static_cast<std::size_t>(task.stage.value);
  StageModule& module = *modules_[j];
  const Tensor input = j == 0 ? feed_.input(task.micro_batch) : std::exchange(flow_, {});
  flow_ = module.forward(weights_[j], input, StageModule::Pass::normal, &tapes_[j], workspace);
  bytes_[j].output = flow_.bytes();
  if (!is_last(j)) return;
  const Tensor logits = std::exchange(flow_, {});
  module.loss(logits, feed_.target(task.micro_batch), 1, &flow_, workspace);
  count_tapes();
}

/// While all of them are there: from the last, to which a shared tensor belongs.
void LayerBytesRunner::count_tapes() {
  SeenMemory counted;
  for (std::size_t j = tapes_.size(); j-- > 0;) bytes_[j].tape = tapes_[j]->bytes_beside(counted);
}

/// They come from the last, too, and no tape goes before the first W.
void LayerBytesRunner::backward_input(const Task& task, Workspace& workspace) {
  const auto j = static_cast<std::size_t>(task.stage.value);
  const Tensor gradient = std::exchange(flow_, {});
  flow_ = modules_[j]->backward_input(weights_[j], *tapes_[j], gradient, 1, j > 0, workspace);
  bytes_[j].for_weight_gradient = tapes_[j]->bytes_beside(counted_);
}

}  // namespace unlatch::exec
