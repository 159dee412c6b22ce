// Backend: where tasks really run; the seam between the executor's loop and threads, streams or a
// fake clock.
#pragma once

#include "schedules/graph.h"
#include "traces/timeline.h"

namespace unlatch::exec {

/// Ordered queues of work, one a lane. Every call but synchronize() returns at once.
class Backend {
 public:
  virtual ~Backend() = default;
  /// What is launched on the lane afterwards starts after that task has ended.
  virtual void wait_end(LaneId lane, TaskId task) = 0;
  /// The same after that task has started.
  virtual void wait_start(LaneId lane, TaskId task) = 0;
  /// Runs the task behind everything launched on its lane before.
  virtual void launch(TaskId task) = 0;
  /// Waits for everything launched. Throws the first failure, with its rank and task named.
  virtual Timeline synchronize() = 0;
};

}  // namespace unlatch::exec
