#include "exec/stage_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/host_parameter_math.h"
#include "models/drift.h"
#include "schedules/error.h"
#include "schedules/properties.h"

namespace unlatch::exec {

StageRunner::StageRunner(const TaskGraph& graph, std::vector<StageModule*> modules, Feed& feed,
                         std::function<double(int)> rate, Observer observer,
                         std::vector<LocalHead*> heads, StatisticUpdates statistics,
                         const std::optional<models::GradientClip>& clip)
    : graph_(graph),
      feed_(feed),
      rate_(std::move(rate)),
      observer_(std::move(observer)),
      statistics_(statistics),
      recomputes_(std::ranges::find(graph.tasks(), Op::recompute, &Task::op) !=
                  graph.tasks().end()),
      kept_(graph),
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
  require_one_mover();
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    open(k, modules[k.value], local && !is_last(k) ? heads[k.value] : nullptr);
  }
  copies_ = make_copies(graph, stages_);
  if (clip || JointGradients::are_tied(stages_)) joint_.emplace(graph, clip, stages_);
  if (graph.learning().rescaled_updates > 0 || graph.learning().drift_decay > 0) follow_drift();
}

/// What waits for a stage is on the rank of the stage that made it.
void StageRunner::open(Stage k, StageModule* module, LocalHead* head) {
  using Kind = KeptMemory::Kind;
  StageState& stage = stages_[k.value];
  stage.module = module;
  stage.head = head;
  stage.weights = module->initial_weights();
  stage.gradient = module->zero_gradient();
  const Counter versions(kept_, k, Kind::weights);
  versions.add(stage.weights.bytes());
  kept_.add(k, Kind::gradients, 1,
            static_cast<std::int64_t>(stage.gradient.bytes() + module->tied_bytes()));
  kept_.add(k, Kind::optimizer, 1, static_cast<std::int64_t>(module->optimizer_bytes()));
  if (head != nullptr) {
    const LocalHead::Bytes bytes = head->bytes();
    kept_.add(k, Kind::weights, 0, static_cast<std::int64_t>(bytes.weights));
    kept_.add(k, Kind::gradients, 0, static_cast<std::int64_t>(bytes.gradient));
    kept_.add(k, Kind::optimizer, 0, static_cast<std::int64_t>(bytes.optimizer));
  }
  const int places = graph_.shape().all_micro_batches();
  const Stage above = is_last(k) ? k : has_feedback() ? graph_.shape().last_of(k) : k + 1;
  const Stage below = graph_.shape().is_first(k) ? k : k - 1;
  stage.stash = CountedVersions(versions);
  stage.tapes = {places, {kept_, k, Kind::activations}};
  stage.inputs = {places, {kept_, k, Kind::inputs}};
  stage.activations = {places, {kept_, below, Kind::queues}};
  stage.errors = {places, {kept_, above, Kind::queues}};
  if (head != nullptr && !has_feedback()) stage.outputs = {places, {kept_, k, Kind::queues}};
  if (graph_.learning().sources.empty()) return;
  stage.takers.resize(places);
  for (const MicroBatch source : graph_.learning().sources[k.value]) ++stage.takers[source.value];
}

void StageRunner::follow_drift() {
  delays_ = properties(graph_).forward_staleness;
  if (graph_.learning().drift_decay == 0) return;
  for (const StageState& stage : stages_) drifts_.push_back(stage.module->zero_gradient());
}

/// As they are, or moved back to about where the forward saw them.
Tensor StageRunner::weights_for_backward(const Task& task) {
  const std::size_t k = task.stage.value;
  if (drifts_.empty() || delays_[k] == 0) return read_weights(task);
  StageModule& module = *state(task).module;
  Tensor moved = module.copy_of(read_weights(task));
  module.math().move_back(delays_[k], drifts_[k], moved);
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

MemorySizes StageRunner::sizes() const {
  MemorySizes sizes;
  const auto add = [](std::vector<std::int64_t>& to, std::size_t bytes) {
    to.push_back(static_cast<std::int64_t>(bytes));
  };
  for (const StageState& stage : stages_) {
    const auto head = stage.head == nullptr ? LocalHead::Bytes{} : stage.head->bytes();
    add(sizes.activation, stage.tapes.size());
    add(sizes.input, stage.inputs.size());
    add(sizes.weight_grad_activation, stage.tapes.size_after_input());
    add(sizes.weight, stage.weights.bytes() + head.weights);
    add(sizes.gradient, stage.gradient.bytes() + stage.module->tied_bytes() + head.gradient);
    add(sizes.optimizer, stage.module->optimizer_bytes() + head.optimizer);
    add(sizes.output_gradient, stage.errors.size());
  }
  for (const Stage k : up_to<Stage>(graph_.shape().stages)) {
    add(sizes.output, is_last(k) ? 0 : stages_[k.value + 1].activations.size());
  }
  return sizes;
}

Tensor& StageRunner::gradient_of(const Task& task) {
  return copies_ ? copies_->gradient_of(task.stage, batch_of(graph_, task)) : state(task).gradient;
}

void StageRunner::run(const Task& task, Workspace& workspace) {
  perform(task, workspace);
  if (task.has(last_reader)) state(task).stash.drop(task.version);
}

void StageRunner::perform(const Task& task, Workspace& workspace) {
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

const Tensor& StageRunner::read_weights(const Task& task) {
  if (served()) return copies_->sent(task);
  const StageState& stage = stages_[task.stage.value];
  return task.version == stage.version ? stage.weights : stage.stash.at(task.version);
}

Tensor StageRunner::target_of(const Task& task) {
  return feed_.target(graph_.origin(task.stage, task.micro_batch));
}

/// Empty where heads do not look at it.
Tensor StageRunner::target_of_head(const Task& task) {
  return graph_.learning().local_gradients.see_targets() ? target_of(task) : Tensor{};
}

/// From the feed, or the output of the stage below; the last that takes an output removes it.
Tensor StageRunner::take_input(const Task& task) {
  StageState& stage = state(task);
  if (graph_.shape().is_first(task.stage)) return feed_.input(task.micro_batch);
  const int from = graph_.source(task.stage, task.micro_batch).value;
  const bool is_last_taker = stage.takers.empty() || --stage.takers[from] == 0;
  return stage.module->received(is_last_taker ? stage.activations.take(from)
                                              : stage.activations.at(from));
}

bool StageRunner::moves_statistics(const Task& task) const {
  if (task.op == Op::recompute) return statistics_ != StatisticUpdates::forward;
  return statistics_ != StatisticUpdates::recompute || !task.has(replayed);
}

/// On one lane they come in an order that the graph fixes.
void StageRunner::require_one_mover() const {
  if (statistics_ == StatisticUpdates::forward) return;
  std::vector<const Lane*> movers(stages_.size());
  for (const Task& task : graph_.tasks()) {
    if ((task.op != Op::forward && task.op != Op::recompute) || !moves_statistics(task)) continue;
    const Lane*& mover = movers[task.stage.value];
    require(
        mover == nullptr || *mover == graph_.lane(task),
        "{}: F and R of stage {} run side by side and would both move the running statistics of "
        "its batch norms, in an order that depends on timing; let F or R alone move them",
        graph_.schedule(), task.stage.value);
    mover = &graph_.lane(task);
  }
}

StageModule::Pass StageRunner::pass_of(const Task& task) const {
  using Pass = StageModule::Pass;
  return {moves_statistics(task) ? Pass::normal : Pass::replay, batch_of(graph_, task),
          feed_.share(task.micro_batch).first_sample};
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
  std::unique_ptr<StageModule::Tape> tape;
  Tensor output = stage.module->forward(ahead > 0 ? guess : read_weights(task), input,
                                        pass_of(task), keeps_tape ? &tape : nullptr, workspace);
  if (keeps_tape) stage.tapes.put(i, std::move(tape));
  if (recomputes_) stage.inputs.put(i, std::move(input));
  hand_on(task, std::move(output), workspace);
}

double StageRunner::loss_scale_of(const Task& task) const {
  return graph_.learning().loss_scale * feed_.share(task.micro_batch).weight;
}

/// To the next stage; on the last one to the loss, whose gradient waits for the backward.
void StageRunner::hand_on(const Task& task, Tensor output, Workspace& workspace) {
  const int i = task.micro_batch.value;
  if (!is_last(task.stage)) {
    if (state(task).outputs.has_places()) state(task).outputs.put(i, output);
    StageState& next = stages_[task.stage.value + 1];
    if (next.takers.empty() || next.takers[i] > 0) next.activations.put(i, std::move(output));
    return;
  }
  StageState& stage = state(task);
  Tensor error;
  stage.module->report_loss(output, target_of(task), loss_scale_of(task), &error, workspace,
                            [this, which = task.micro_batch](const Loss& loss) {
                              if (observer_.loss) observer_.loss(which, loss);
                            });
  if (has_feedback()) {
    const int first = task.stage.value - graph_.shape().model_stage(task.stage).value;
    for (int k = first; k < task.stage.value; ++k) stages_[k].errors.put(i, error);
  }
  stage.errors.put(i, std::move(error));
}

void StageRunner::recompute(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  std::unique_ptr<StageModule::Tape> tape;
  stage.module->forward(read_weights(task), stage.inputs.at(i), pass_of(task), &tape, workspace);
  stage.tapes.put(i, std::move(tape));
}

/// Of the next stage's backward, the loss, or the stage's own head.
Tensor StageRunner::output_gradient(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  if (stage.head == nullptr) return stage.module->received(stage.errors.take(i));
  CountedTensors& kept = has_feedback() ? stage.errors : stage.outputs;
  const bool still_to_learn = source() == GradientSource::synthesiser;
  const Tensor from = stage.module->received(still_to_learn ? kept.at(i) : kept.take(i));
  return stage.head->gradient(from, target_of_head(task), loss_scale_of(task), workspace);
}

void StageRunner::learn(const Task& task, Workspace& workspace) {
  StageState& stage = state(task);
  const int i = task.micro_batch.value;
  const Tensor gradient = stage.module->received(stage.errors.take(i));
  stage.head->learn(stage.outputs.take(i), target_of_head(task), gradient, workspace);
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
    gradient = stage.module->backward(weights, stage.tapes.at(i), error, scale, sends,
                                      gradient_of(task), workspace);
  } else {
    gradient =
        stage.module->backward_input(weights, stage.tapes.at(i), error, scale, sends, workspace);
  }
  if (sends) stages_[task.stage.value - 1].errors.put(i, std::move(gradient));
  if (task.op == Op::backward) return end_gradient(task);
  stage.tapes.shrank(i);
}

void StageRunner::backward_weight(const Task& task, Workspace& workspace) {
  state(task).module->backward_weight(state(task).tapes.at(task.micro_batch.value),
                                      gradient_of(task), workspace);
  end_gradient(task);
}

void StageRunner::end_gradient(const Task& task) {
  if (joint_) joint_->note_gradient(task);
  forget(task);
}

/// What a micro-batch has left in a stage.
void StageRunner::forget(const Task& task) {
  state(task).tapes.drop(task.micro_batch.value);
  if (recomputes_) state(task).inputs.take(task.micro_batch.value);
}

void StageRunner::update(const Task& task) {
  StageState& stage = state(task);
  if (task.has(keeps_old)) {
    stage.stash.put(stage.version, stage.weights);
    stage.weights = stage.module->copy_of(stage.weights);
  }
  const double rate = rate_of(task);
  if (joint_) {
    const std::vector<Tensor> squares = joint_->prepare(task.stage);
    if (observer_.norm && !squares.empty()) {
      observer_.norm(task.stage, batch_of(graph_, task), std::sqrt(sum_of(squares)));
    }
  }
  const Tensor before = drifts_.empty() ? Tensor{} : stage.module->copy_of(stage.weights);
  if (copies_) {
    copies_->update(task, rate);
  } else {
    stage.module->update(stage.weights, stage.gradient, rate);
  }
  if (!drifts_.empty()) {
    const std::size_t k = task.stage.value;
    const double kept = models::kept_at_a_step(graph_.learning().drift_decay, delays_[k]);
    stage.module->math().note_step(kept, drifts_[k], before, stage.weights);
  }
  if (stage.head != nullptr) stage.head->update(rate);
  if (served()) return observe_server(task);
  const bool own_weights = !copies_ || !copies_->has_server();
  if (own_weights && observer_.update) observer_.update(task.stage, stage.version, stage.weights);
  ++stage.version;
}

void StageRunner::all_reduce(const Task& task) {
  copies_->all_reduce(task, rate_(batch_of(graph_, task)));
  if (joint_) joint_->note_sum(task);
  if (copies_->has_server()) observe_server(task);
}

void StageRunner::observe_server(const Task& task) {
  if (!observer_.update) return;
  const Stage k = graph_.shape().model_stage(task.stage);
  observer_.update(k, task.version, copies_->server_weights(k));
}

}  // namespace unlatch::exec
