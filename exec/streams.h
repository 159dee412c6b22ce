// Streams: a device's ordered queues and the marks that join them; the seam between the executor
// and CUDA, or a recording of what CUDA would be told.
#pragma once

#include "schedules/ids.h"
#include "traces/timeline.h"

namespace unlatch::exec {

/// One queue a lane. A mark is a place in a queue, by number; those of starts of tasks are even,
/// those of ends odd. Only reached() blocks.
class Streams {
 public:
  virtual ~Streams() = default;
  /// Sets the mark behind all that is on the lane now; where it was before is forgotten.
  virtual void record(int mark, LaneId lane) = 0;
  /// What comes on the lane later starts after the mark has been reached.
  virtual void wait(LaneId lane, int mark) = 0;
  /// True where whatever comes from now on starts behind the mark anyway.
  virtual bool is_behind(int) const { return false; }
  /// Blocks until the mark is reached: when that was, since the run began. Throws RunError.
  virtual nanoseconds reached(int mark) = 0;
};

}  // namespace unlatch::exec
