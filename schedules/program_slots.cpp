// Where tasks are kept: all of them, or those that somebody may still look at.
#include <algorithm>

#include "schedules/program_runner.h"

namespace unlatch {

ProgramRunner::Slot ProgramRunner::new_slot() {
  if (taker_ == nullptr) {
    tasks.emplace_back();
    return static_cast<Slot>(tasks.size()) - 1;
  }
  if (free_slots_.empty()) collect_slots();
  const Slot slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void ProgramRunner::end_task(Slot slot) {
  if (taker_ == nullptr) {
    first_edge.push_back(static_cast<std::uint32_t>(edges.size()));
  } else {
    taker_->take(slot, std::span(edges).subspan(row_));
    edges.resize(row_);
  }
}

/// Frees all slots that nobody looks at any more; where those are few, there will be twice as many.
void ProgramRunner::collect_slots() {
  std::vector<bool> in_use(tasks.size(), false);
  const auto mark = [&in_use](Slot slot) {
    if (slot >= 0) in_use[slot] = true;
  };
  mark_slots(mark);
  taker_->each_in_use(mark);
  for (std::size_t slot = in_use.size(); slot-- > 0;) {
    if (!in_use[slot]) free_slots_.push_back(static_cast<Slot>(slot));
  }
  if (2 * free_slots_.size() > tasks.size()) return;
  constexpr std::size_t few = 1024;
  const std::size_t size = std::max(few, 2 * tasks.size());
  for (std::size_t slot = size; slot-- > tasks.size();) {
    free_slots_.push_back(static_cast<Slot>(slot));
  }
  tasks.resize(size);
}

void ProgramRunner::mark_slots(const std::function<void(Slot)>& mark) const {
  in_flight_.each(mark);
  for (const Edge edge : edges) mark(edge.from().value);
  for (const Walk& walk : walks_) {
    mark(walk.newest);
    for (const Slot end : walk.lane_end) mark(end);
    for (const Edge edge : walk.newest_row) mark(edge.from().value);
  }
  for (const StageState& state : stages_) {
    mark(state.newest_gradient);
    for (const KeptVersion& kept : state.versions) {
      mark(kept.update);
      mark(kept.reader);
    }
  }
  mark(newest_barrier_);
  for (const Meeting& meeting : meetings_) {
    for (const auto& [rank, before] : meeting.before) mark(before);
  }
  for (const AllReduces& all : all_reduces_) {
    if (all.done > 0) std::ranges::for_each(all.newest, mark);
    for (const AllReduces::Join& join : all.waiting) {
      for (const auto& [rank, input] : join.inputs) mark(input);
    }
  }
}

}  // namespace unlatch
