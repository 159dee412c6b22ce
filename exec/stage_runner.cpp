#include "exec/stage_runner.h"

#include <utility>

#include "schedules/error.h"
#include "schedules/properties.h"

namespace unlatch::exec {

StageRunner::StageRunner(const TaskGraph& graph, std::vector<StageModule*> modules, Feed& feed,
                         std::function<double(int)> rate, Observer observer,
                         std::vector<LocalHead*> heads)
    : graph_(graph),
      feed_(feed),
      rate_(std::move(rate)),
      observer_(std::move(observer)),
      stages_(graph.shape().stages) {
  require(modules.size() == stages_.size(), "{} stage modules were given for {} stages",
          modules.size(), stages_.size());
  const bool local = graph.learning().local_gradients.source != GradientSource::next_stage;
  require(
      !local || heads.size() == stages_.size(),
      "{}: its stages learn from local heads, and {} were given for {} stages; give one a stage",
      graph.schedule(), heads.size(), stages_.size());
  require(!local || has_feedback() || graph.shape().copies == 1,
          "{}: {} copies of the model were asked for, but local heads belong to one copy and are "
          "never averaged; run one replica",
          graph.schedule(), graph.shape().copies);
  const int micro_batches = graph.shape().all_micro_batches();
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    StageState& stage = stages_[k];
    stage.module = modules[k];
    stage.weights = stage.module->initial_weights();
    stage.gradient = stage.module->zero_gradient();
    stage.activations.resize(micro_batches);
    stage.errors.resize(micro_batches);
    stage.inputs.resize(micro_batches);
    stage.tapes.resize(micro_batches);
    if (!graph.learning().sources.empty()) {
      stage.takers.resize(micro_batches);
      for (const MicroBatch source : graph.learning().sources[k]) ++stage.takers[source.value];
    }
    if (!local || graph.shape().is_last(Stage{static_cast<int>(k)})) continue;
    stage.head = heads[k];
    if (!has_feedback()) stage.outputs.resize(micro_batches);
  }
  copies_ = make_copies(graph, stages_);
  if (graph.learning().rescaled_updates > 0 || graph.learning().drift_decay > 0) follow_drift();
}

void StageRunner::follow_drift() {
  delays_ = properties(graph_).forward_staleness;
  const double decay = graph_.learning().drift_decay;
  for (std::size_t k = 0; decay > 0 && k < stages_.size(); ++k) {
    const StageState& stage = stages_[k];
    if (stage.module->number() == StageModule::Number::float64) {
      drifts_.emplace_back(
          models::Drift<double>(decay, delays_[k], stage.weights.as<double>().size()));
    } else {
      drifts_.emplace_back(
          models::Drift<float>(decay, delays_[k], stage.weights.as<float>().size()));
    }
  }
}

/// As they are, or moved back to about where the forward saw them.
Tensor StageRunner::weights_for_backward(const Task& task) {
  if (drifts_.empty() || delays_[task.stage.value] == 0) return read_weights(task);
  Tensor moved = state(task).module->copy_of(read_weights(task));
  std::visit(
      [&](const auto& drift) {
        using Real = typename std::decay_t<decltype(drift)>::Number;
        drift.move_back(moved.as<Real>());
      },
      drifts_[task.stage.value]);
  return moved;
}

double StageRunner::rate_of(const Task& task) const {
  const double rate = rate_(batch_of(graph_, task));
  if (graph_.learning().rescaled_updates == 0) return rate;
  return rate * models::rescaled_rate(delays_[task.stage.value], task.version,
                                      graph_.learning().rescaled_updates);
}

const Tensor& StageRunner::weights(Stage k) const {
  if (copies_ && copies_->has_server())
    return copies_->server_weights(graph_.shape().model_stage(k));
  return stages_[k.value].weights;
}

Tensor& StageRunner::gradient_of(const Task& task) {
  return copies_ ? copies_->gradient_of(task.stage, batch_of(graph_, task)) : state(task).gradient;
}

void StageRunner::run(const Task& task, Workspace& workspace) {
  switch (task.op) {
    case Op::forward:
      return forward(task, workspace);
    case Op::recompute:
      return recompute(task, workspace);
    case Op::backward:
    case Op::backward_input:
      return backward(task, workspace);
    case Op::backward_weight:
      return backward_weight(task, workspace);
    case Op::pop_backward:
      return learn(task, workspace);
    case Op::update:
      return update(task);
    case Op::all_reduce:
      return all_reduce(task);
    default:
      fail("task {} cannot run: its kind has no mathematics on the CPU", label(task));
  }
}

const Tensor& StageRunner::read_weights(const Task& task) const {
  if (served()) return copies_->sent(task);
  const StageState& stage = stages_[task.stage.value];
  return task.version == stage.version ? stage.weights : stage.stash.at(task.version);
}

Tensor StageRunner::target_of(const Task& task) {
  return feed_.target(graph_.origin(task.stage, task.micro_batch));
}

/// From the feed, or the output of the stage below; the last that takes an output removes it.
Tensor StageRunner::take_input(const Task& task) {
  StageState& stage = state(task);
  if (graph_.shape().is_first(task.stage)) return feed_.input(task.micro_batch);
  const int from = graph_.source(task.stage, task.micro_batch).value;
  const bool is_last_taker = stage.takers.empty() || --stage.takers[from] == 0;
  return stage.module->received(is_last_taker ? std::exchange(stage.activations[from], {})
                                              : stage.activations[from]);
}

void StageRunner::forward(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  if (served()) stage.version = task.version;
  Tensor input = take_input(task);
  const bool keeps_tape = !task.has(replayed);
  const int ahead = graph_.learning().predicts_weights ? batch_of(graph_, task) - task.version : 0;
  Tensor guess;
  if (ahead > 0) guess = stage.module->predicted(stage.weights, ahead, rate_(task.version));
  Tensor output = stage.module->forward(ahead > 0 ? guess : read_weights(task), input,
                                        StageModule::Pass::normal,
                                        keeps_tape ? &stage.tapes[i] : nullptr, workspace);
  if (task.has(last_reader)) stage.stash.erase(task.version);
  if (!keeps_tape) stage.inputs[i] = std::move(input);
  hand_on(task, std::move(output), workspace);
}

/// To the next stage; on the last one to the loss, whose gradient waits for the backward.
void StageRunner::hand_on(const Task& task, Tensor output, Workspace& workspace) {
  const int i = task.micro_batch.value;
  if (!is_last(task.stage)) {
    if (!state(task).outputs.empty()) state(task).outputs[i] = output;
    StageState& next = stages_[task.stage.value + 1];
    if (next.takers.empty() || next.takers[i] > 0) next.activations[i] = std::move(output);
    return;
  }
  StageState& stage = state(task);
  stage.module->report_loss(output, target_of(task), graph_.learning().loss_scale, &stage.errors[i],
                            workspace, [this, which = task.micro_batch](const Loss& loss) {
                              if (observer_.loss) observer_.loss(which, loss);
                            });
  if (has_feedback()) {
    const int first = task.stage.value - graph_.shape().model_stage(task.stage).value;
    for (int k = first; k < task.stage.value; ++k) stages_[k].errors[i] = stage.errors[i];
  }
}

void StageRunner::recompute(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  const Tensor input = std::exchange(stage.inputs[i], {});
  stage.module->forward(read_weights(task), input, StageModule::Pass::replay, &stage.tapes[i],
                        workspace);
}

/// Of the next stage's backward, the loss, or the stage's own head.
Tensor StageRunner::output_gradient(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  if (stage.head == nullptr) return stage.module->received(std::exchange(stage.errors[i], {}));
  Tensor& kept = has_feedback() ? stage.errors[i] : stage.outputs[i];
  const bool still_to_learn = source() == GradientSource::synthesiser;
  const Tensor from = still_to_learn ? kept : std::exchange(kept, {});
  return stage.head->gradient(from, target_of(task), graph_.learning().loss_scale, workspace);
}

void StageRunner::learn(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  stage.head->learn(std::exchange(stage.outputs[i], {}), target_of(task),
                    std::exchange(stage.errors[i], {}), workspace);
}

void StageRunner::backward(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  const Tensor weights = weights_for_backward(task);
  const Tensor error = output_gradient(task, workspace);
  const double scale = is_last(task.stage) ? 1.0 : graph_.learning().gradient_scale;
  const bool sends = !graph_.shape().is_first(task.stage) && !has_feedback() &&
                     source() != GradientSource::local_head;
  Tensor gradient;
  if (task.op == Op::backward) {
    const auto tape = std::exchange(stage.tapes[i], nullptr);
    gradient =
        stage.module->backward(weights, *tape, error, scale, sends, gradient_of(task), workspace);
  } else {
    gradient =
        stage.module->backward_input(weights, *stage.tapes[i], error, scale, sends, workspace);
  }
  if (sends) stages_[task.stage.value - 1].errors[i] = std::move(gradient);
  if (task.has(last_reader)) stage.stash.erase(task.version);
}

void StageRunner::backward_weight(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const auto tape = std::exchange(stage.tapes[task.micro_batch.value], nullptr);
  stage.module->backward_weight(*tape, gradient_of(task), workspace);
  if (task.has(last_reader)) stage.stash.erase(task.version);
}

void StageRunner::update(const Task& task) {
  StageState& stage = state(task);
  if (task.has(keeps_old)) {
    stage.stash[stage.version] = stage.weights;
    stage.weights = stage.module->copy_of(stage.weights);
  }
  const double rate = rate_of(task);
  const Tensor before = drifts_.empty() ? Tensor{} : stage.module->copy_of(stage.weights);
  if (copies_) {
    copies_->update(task, rate);
  } else {
    stage.module->update(stage.weights, stage.gradient, rate);
  }
  if (!drifts_.empty()) {
    std::visit(
        [&](auto& drift) {
          using Real = typename std::decay_t<decltype(drift)>::Number;
          drift.note_step(before.as<Real>(), stage.weights.as<Real>());
        },
        drifts_[task.stage.value]);
  }
  if (stage.head != nullptr) stage.head->update(rate);
  if (served()) return observe_server(task);
  const bool own_weights = !copies_ || !copies_->has_server();
  if (own_weights && observer_.update) observer_.update(task.stage, stage.version, stage.weights);
  ++stage.version;
}

void StageRunner::all_reduce(const Task& task) {
  copies_->all_reduce(task, rate_(batch_of(graph_, task)));
  if (copies_->has_server()) observe_server(task);
}

void StageRunner::observe_server(const Task& task) {
  if (!observer_.update) return;
  const Stage k = graph_.shape().model_stage(task.stage);
  observer_.update(k, task.version, copies_->server_weights(k));
}

}  // namespace unlatch::exec
