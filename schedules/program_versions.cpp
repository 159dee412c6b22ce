// Which weights each task reads, which of them must be kept for it, and what the executor must
// know.
#include "schedules/program_runner.h"

namespace unlatch {

void ProgramRunner::read_version(const Item& item, Task& task) {
  const Stage k = task.stage;
  const int current = stages_[k.value].updates;
  const auto version_of = [&](Kind kind) {
    return tasks[in_flight_.at(k, task.micro_batch)[kind]].version;
  };
  task.version = current;
  if (item.op == Op::forward) {
    if (item.version != newest) task.version = item.version;
    odd_ = odd_ || task.version < 0 || task.version > current;
  } else if (item.op == Op::pop_backward) {
    const LocalGradients& local = schedule_.learning().local_gradients;
    if (local.source == GradientSource::synthesiser) task.flags |= learns;
  } else if (item.op == Op::update) {
    return;
  } else if (item.weights == Weights::as_forward) {
    task.version = version_of(Kind::forward);
  } else if (item.op == Op::backward_weight) {
    task.version = version_of(Kind::input_gradient);
  }
}

/// Keeps the books on old versions: an update keeps the one it overwrites if somebody still reads
/// it, and the last who does so lets it go.
void ProgramRunner::record_version(Slot slot) {
  Task& task = tasks[slot];
  StageState& state = stages_[task.stage.value];
  if (task.op == Op::update) {
    forget_versions(state);
    state.versions.push_back({slot});
  } else if (task.version < state.updates) {
    if (task.version < state.first_version) throw TasksInFlight::Forgotten{};
    KeptVersion& kept = state.versions[task.version - state.first_version];
    if (kept.reader != none) changed(kept.reader).flags &= static_cast<std::uint8_t>(~last_reader);
    kept.reader = slot;
    task.flags |= last_reader;
    if (!tasks[kept.update].has(keeps_old)) changed(kept.update).flags |= keeps_old;
  }
}

/// Those that no later reader could change any more.
void ProgramRunner::forget_versions(StageState& state) {
  if (taker_ == nullptr) return;
  const auto fixed = [this](Slot slot) { return slot == none || taker_->is_done_with(slot); };
  while (!state.versions.empty() && fixed(state.versions.front().update) &&
         fixed(state.versions.front().reader)) {
    state.versions.pop_front();
    ++state.first_version;
  }
}

/// An R would have rebuilt the tapes that are left when a run ends without drain.
void ProgramRunner::flag_replayed() {
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    for (MicroBatch i = in_flight_.first(); i.value < shape_.all_micro_batches(); ++i) {
      const TasksInFlight::Entries& here = in_flight_.at(k, i);
      if (here[Kind::forward] >= 0 && here[Kind::input_gradient] < 0) {
        changed(here[Kind::forward]).flags |= replayed;
      }
    }
  }
}

}  // namespace unlatch
