#include "exec/stage_runner.h"

#include <utility>

#include "schedules/error.h"

namespace unlatch::exec {

StageRunner::StageRunner(const TaskGraph& graph, std::vector<StageModule*> modules, Feed& feed,
                         std::function<double(int)> rate, Observer observer)
    : graph_(graph),
      feed_(feed),
      rate_(std::move(rate)),
      observer_(std::move(observer)),
      stages_(graph.shape().stages) {
  require(modules.size() == stages_.size(), "{} stage modules were given for {} stages",
          modules.size(), stages_.size());
  const int micro_batches = graph.shape().all_micro_batches();
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    State& stage = stages_[k];
    stage.module = modules[k];
    stage.weights = stage.module->initial_weights();
    stage.gradient = stage.module->zero_gradient();
    stage.activations.resize(micro_batches);
    stage.errors.resize(micro_batches);
    stage.inputs.resize(micro_batches);
    stage.tapes.resize(micro_batches);
  }
}

void StageRunner::run(const Task& task, Workspace& workspace) {
  switch (task.op) {
    case Op::forward:
      return forward(task, workspace);
    case Op::recompute:
      return recompute(task, workspace);
    case Op::backward:
      return backward(task, workspace);
    case Op::update:
      return update(task);
    default:
      fail("task {} cannot run: its kind has no mathematics on the CPU", label(task));
  }
}

void StageRunner::forward(const Task& task, Workspace& workspace) {
  State& stage = state(task);
  const int i = task.micro_batch.value;
  Tensor input = task.stage == Stage{0} ? feed_.input(task.micro_batch)
                                        : std::exchange(stage.activations[i], {});
  const bool keeps_tape = !task.has(replayed);
  Tensor output = stage.module->forward(stage.weights, input, StageModule::Pass::normal,
                                        keeps_tape ? &stage.tapes[i] : nullptr, workspace);
  if (!keeps_tape) stage.inputs[i] = std::move(input);
  hand_on(task, std::move(output), workspace);
}

/// To the next stage; on the last one to the loss, whose gradient waits for the backward.
void StageRunner::hand_on(const Task& task, Tensor output, Workspace& workspace) {
  const int i = task.micro_batch.value;
  if (!is_last(task.stage)) {
    stages_[task.stage.value + 1].activations[i] = std::move(output);
    return;
  }
  State& stage = state(task);
  const Loss loss =
      stage.module->loss(output, feed_.target(task.micro_batch), 1.0 / graph_.shape().micro_batches,
                         &stage.errors[i], workspace);
  if (observer_.loss) observer_.loss(task.micro_batch, loss);
}

void StageRunner::recompute(const Task& task, Workspace& workspace) {
  State& stage = state(task);
  const int i = task.micro_batch.value;
  const Tensor input = std::exchange(stage.inputs[i], {});
  stage.module->forward(stage.weights, input, StageModule::Pass::replay, &stage.tapes[i],
                        workspace);
}

void StageRunner::backward(const Task& task, Workspace& workspace) {
  State& stage = state(task);
  const int i = task.micro_batch.value;
  const Tensor& weights =
      task.version == stage.version ? stage.weights : stage.stash.at(task.version);
  const Tensor error = std::exchange(stage.errors[i], {});
  const auto tape = std::exchange(stage.tapes[i], nullptr);
  const double scale = is_last(task.stage) ? 1.0 : graph_.gradient_scale();
  const bool sends = task.stage > Stage{0};
  Tensor gradient =
      stage.module->backward(weights, *tape, error, scale, sends, stage.gradient, workspace);
  if (sends) stages_[task.stage.value - 1].errors[i] = std::move(gradient);
  if (task.has(last_reader)) stage.stash.erase(task.version);
}

void StageRunner::update(const Task& task) {
  State& stage = state(task);
  if (task.has(keeps_old)) {
    stage.stash[stage.version] = stage.weights;
    stage.weights = pool_.copy_of(stage.weights);
  }
  stage.module->update(stage.weights, stage.gradient, rate_(batch_of(graph_, task)));
  if (observer_.update) observer_.update(task.stage, stage.version, stage.weights);
  ++stage.version;
}

}  // namespace unlatch::exec
