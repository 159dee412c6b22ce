// StreamBackend: lanes as the streams of a device, edges between them as marks and waits.
#pragma once

#include <atomic>

#include "exec/backend.h"
#include "exec/stream_order.h"
#include "exec/task_runner.h"

namespace unlatch::exec {

/// The host puts every task on its lane's stream at once and goes on; the runner's calls only
/// enqueue. One host thread, so that the runner needs no workspace of a worker's own.
class StreamBackend : public Backend {
 public:
  /// `order` is that of the graph and fresh. `cancel` is looked at before each task.
  StreamBackend(const TaskGraph& graph, StreamOrder& order, TaskRunner& runner,
                const std::atomic<bool>* cancel = nullptr);

  void wait_end(LaneId lane, TaskId task) override { order_.wait_end(lane, task); }
  void wait_start(LaneId lane, TaskId task) override { order_.wait_start(lane, task); }
  /// Throws RunError with the rank and task where the device refuses work, and Cancelled.
  void launch(TaskId task) override;
  Timeline synchronize() override { return order_.finish(); }

 private:
  const TaskGraph& graph_;
  StreamOrder& order_;
  TaskRunner& runner_;
  const std::atomic<bool>* cancel_;
  Workspace workspace_;
};

}  // namespace unlatch::exec
