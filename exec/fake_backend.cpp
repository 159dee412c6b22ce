#include "exec/fake_backend.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace unlatch::exec {

FakeBackend::FakeBackend(const TaskGraph& graph, Length length, double overlap)
    : graph_(graph),
      length_(std::move(length)),
      overlap_(overlap),
      timeline_{LongArray<Span>(graph.size())},
      lane_time_(graph.lanes().size()),
      beside_(graph.lanes().size(), TaskId{-1}) {}

void FakeBackend::wait_end(LaneId lane, TaskId task) {
  nanoseconds& time = lane_time_[lane.value];
  time = std::max(time, timeline_[task].end);
}

void FakeBackend::wait_start(LaneId lane, TaskId task) {
  nanoseconds& time = lane_time_[lane.value];
  time = std::max(time, timeline_[task].start);
  beside_[lane.value] = task;
}

void FakeBackend::launch(TaskId id) {
  const Task& task = graph_.task(id);
  nanoseconds& time = lane_time_[task.lane];
  const nanoseconds length = length_(task);
  const TaskId partner = std::exchange(beside_[task.lane], TaskId{-1});
  if (partner.value >= 0) {
    // What does not hide of the shorter one is added to the longer one; R ends with the pair.
    const nanoseconds other = timeline_[partner].length();
    const double shown = (1.0 - overlap_) * static_cast<double>(std::min(length, other).count());
    time += std::max(length, other) + nanoseconds(std::llround(shown)) - length;
  }
  timeline_[id] = {time, time + length};
  time += length;
}

}  // namespace unlatch::exec
