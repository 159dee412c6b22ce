#include "exec/stream_order.h"

#include <cassert>
#include <utility>

#include "exec/task_failure.h"
#include "schedules/error.h"

namespace unlatch::exec {

StreamOrder::StreamOrder(const TaskGraph& graph, Streams& streams, int window)
    : graph_(graph),
      streams_(streams),
      window_(window),
      calls_(static_cast<std::size_t>(window)),
      timeline_{LongArray<Span>(static_cast<std::size_t>(graph.size()))} {
  require(window > 0, "the host cannot run {} tasks ahead of the device; give at least 1", window);
}

LaneId StreamOrder::lane() const {
  assert(current_);
  return graph_.task(*current_).lane_id();
}

TaskId StreamOrder::latest_at(int place) const {
  const int latest = begun_ - 1;
  return TaskId{latest - (latest - place) % window_};
}

void StreamOrder::wait_start(LaneId lane, TaskId task) {
  assert(task.value < begun_);
  if (!is_over(task) && !streams_.is_behind(start_mark(task))) {
    streams_.wait(lane, start_mark(task));
  }
}

void StreamOrder::wait_end(LaneId lane, TaskId task) {
  assert(task.value < begun_ && task != current_);
  if (!is_past(task)) streams_.wait(lane, end_mark(task));
}

void StreamOrder::begin(TaskId task) {
  assert(!current_ && task.value == begun_);
  if (begun_ - oldest_ == window_) retire_oldest();
  ++begun_;
  current_ = task;
  streams_.record(start_mark(task), lane());
}

void StreamOrder::end() {
  streams_.record(end_mark(*current_), lane());
  current_.reset();
}

void StreamOrder::then(std::function<void()> call) {
  assert(current_);
  calls_[static_cast<std::size_t>(place(*current_))].push_back(std::move(call));
}

void StreamOrder::wait_until_over(TaskId task) {
  assert(task.value < begun_ && task != current_);
  while (!is_over(task)) retire_oldest();
}

/// Devices report a failure at the next question, whichever task it came from: those before the
/// one asked about had no failure when they were asked about.
void StreamOrder::retire_oldest() {
  const TaskId id{oldest_};
  failed_ = true;  // until all went well
  try {
    timeline_[id] = {streams_.reached(start_mark(id)), streams_.reached(end_mark(id))};
  } catch (const RunError& error) {
    throw task_failure(graph_, graph_.task(id), error);
  }
  ++oldest_;
  auto& calls = calls_[static_cast<std::size_t>(place(id))];
  for (const auto& call : std::exchange(calls, {})) call();
  failed_ = false;
}

Timeline StreamOrder::finish() {
  while (oldest_ < begun_) retire_oldest();
  return timeline_;
}

}  // namespace unlatch::exec
