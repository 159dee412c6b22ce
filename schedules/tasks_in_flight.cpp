#include "schedules/tasks_in_flight.h"

#include <algorithm>
#include <utility>

namespace unlatch {
namespace {

constexpr TasksInFlight::Entries nothing = [] {
  TasksInFlight::Entries entries{};
  entries.fill(TasksInFlight::none);
  return entries;
}();

}  // namespace

TasksInFlight::TasksInFlight(const Shape& shape, int margin)
    : shape_(shape), margin_(margin), finished_(shape.stages, 0) {
  entries_.assign(static_cast<std::size_t>(shape.stages) * size_, nothing);
}

void TasksInFlight::make_room_for(MicroBatch i) {
  if (i.value < first_) throw Forgotten{};
  move_first_to(std::max(first_, first_unfinished() - margin_));
  // A window that is full again soon would be moved too often.
  const std::int64_t wanted = std::int64_t{i.value - first_ + 1} * 5 / 4;
  if (wanted <= size_) return;
  int size = size_;
  while (size < wanted) size *= 2;
  grow_to(size);
}

int TasksInFlight::first_unfinished() {
  const int end = std::min(first_ + size_, shape_.all_micro_batches());
  int first = end;
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    int& finished = finished_[k.value];
    while (finished < end &&
           (!has_to_do(k, {finished}) || entries_[cell(k, {finished})][weight_gradient] >= 0)) {
      ++finished;
    }
    first = std::min(first, finished);
  }
  return first;
}

/// Copies of a model share the micro-batches of a batch among them.
bool TasksInFlight::has_to_do(Stage k, MicroBatch i) const {
  return shape_.copies == 1 || shape_.copy_of(k) == shape_.copy_of(i);
}

void TasksInFlight::move_first_to(int first) {
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    for (int i = first_; i < first; ++i) {
      Entries& entries = entries_[cell(k, {i})];
      if (*std::ranges::min_element(entries) < none) throw Forgotten{};  // somebody waits for one
      entries = nothing;
    }
  }
  first_ = first;
}

void TasksInFlight::grow_to(int size) {
  std::vector<Entries> larger(static_cast<std::size_t>(shape_.stages) * size, nothing);
  for (std::size_t k = 0; k < static_cast<std::size_t>(shape_.stages); ++k) {
    for (int i = first_; i < first_ + size_; ++i) {
      larger[k * size + (i & (size - 1))] = entries_[k * size_ + (i & (size_ - 1))];
    }
  }
  entries_ = std::move(larger);
  size_ = size;
}

}  // namespace unlatch
