// What a run keeps, and how old the weights are that it reads.
#include <algorithm>

#include "traces/run_meter.h"

namespace unlatch {

void RunMeter::note_memory(const StreamedTask& streamed, Span span) {
  const Task& task = streamed.task;
  const Stage k = task.stage;
  StageState& stage = stages_[k.value];
  Change start{.at = span.start, .order = order_, .stage = k};
  Change end{.at = span.end,
             .later = span.length() == nanoseconds{0},
             .order = order_,
             .at_end = true,
             .stage = k};
  const auto add_inputs = [&](Change& change, int count) {
    change.inputs += count;
    change.bytes += count * bytes_of(sizes_.input, k);
  };
  const auto add_versions = [&](Change& change, int count) {
    change.weight_versions += count;
    change.bytes += count * bytes_of(sizes_.weight, k);
  };
  if (task.op == Op::forward && recomputes_) add_inputs(start, 1);
  if (task.op == Op::recompute || (task.op == Op::forward && !task.has(replayed))) {
    ++start.activations;
    start.bytes += bytes_of(sizes_.activation, k);
  }
  if (task.op == Op::update && task.has(keeps_old)) {
    stage.stashed[task.version] = true;
    add_versions(start, 1);
  }
  if (gives_input_gradient(task.op)) end.bytes -= bytes_of(sizes_.activation, k);
  const std::int64_t kept_for_weight = bytes_of(sizes_.weight_grad_activation, k);
  if (task.op == Op::backward_input) end.bytes += kept_for_weight;
  if (task.op == Op::backward_weight) end.bytes -= kept_for_weight;
  if (task.op == Op::backward || task.op == Op::backward_weight) {
    --end.activations;
    if (recomputes_) add_inputs(end, -1);
  }
  if (task.op != Op::update && task.has(last_reader) && stage.stashed.erase(task.version) > 0) {
    add_versions(end, -1);
  }
  RankState& rank = ranks_[streamed.rank.value];
  for (const Change& change : {start, end}) {
    if (change.activations != 0 || change.inputs != 0 || change.weight_versions != 0 ||
        change.bytes != 0) {
      rank.changes.push(change);
    }
  }
}

void RunMeter::apply(RankState& rank, const Change& change) {
  MemoryLevel& level = rank.level;
  level.at = change.at;
  level.activations += change.activations;
  level.inputs += change.inputs;
  level.weight_versions += change.weight_versions;
  level.bytes += change.bytes;
  RankMemory& memory = rank.memory;
  int& versions = stages_[change.stage.value].versions;
  versions += change.weight_versions;
  memory.peak_weight_versions = std::max(memory.peak_weight_versions, versions);
  memory.peak_activations = std::max(memory.peak_activations, level.activations);
  memory.peak_inputs = std::max(memory.peak_inputs, level.inputs);
  if (level.bytes > memory.peak.bytes) memory.peak = level;
}

void RunMeter::note_staleness(const Task& task) {
  if (!is_compute(task.op)) return;
  StageState& stage = stages_[task.stage.value];
  const int i = task.micro_batch.value;
  switch (task.op) {
    case Op::forward:
      stage.read[i] = {task.version, task.version};
      return;
    case Op::recompute:
      stage.read[i].of_tape = task.version;
      return;
    case Op::backward:
    case Op::backward_weight:
      note_gradient(stage, i);
      return;
    case Op::update:
      ++stage.metrics.updates;
      if (!stage.oldest) return;
      stage.metrics.forward_staleness =
          std::max(stage.metrics.forward_staleness, task.version - stage.oldest->of_forward);
      stage.metrics.weight_staleness =
          std::max(stage.metrics.weight_staleness, task.version - stage.oldest->of_tape);
      stage.oldest.reset();
      return;
    default:
      return;
  }
}

/// Of the gradients that one update applies only the oldest versions matter.
void RunMeter::note_gradient(StageState& stage, int micro_batch) {
  const auto read = stage.read.extract(micro_batch).mapped();
  if (!stage.oldest) stage.oldest = read;
  stage.oldest->of_forward = std::min(stage.oldest->of_forward, read.of_forward);
  stage.oldest->of_tape = std::min(stage.oldest->of_tape, read.of_tape);
}

}  // namespace unlatch
