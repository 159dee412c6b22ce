// Idle time of each rank, and what it waited for.
#pragma once

#include <vector>

#include "traces/timeline.h"

namespace unlatch {

/// Idle time of one rank by its direct cause (contract, "idle_by_cause_ms").
struct IdleCauses {
  nanoseconds forward_lock{0};   ///< an activation not computed yet
  nanoseconds backward_lock{0};  ///< a gradient not computed yet
  nanoseconds update_lock{0};    ///< an update, a barrier, or the end of a forward phase
  nanoseconds transfer{0};       ///< a message on its link or queued for it, also behind a receiver
  nanoseconds queue{0};          ///< no free place in a queue
  nanoseconds start{0};          ///< before the rank's first task
  nanoseconds end{0};            ///< after its last

  nanoseconds total() const {
    return forward_lock + backward_lock + update_lock + transfer + queue + start + end;
  }
  friend bool operator==(const IdleCauses&, const IdleCauses&) = default;
};

/// Per rank. A rank is idle while none of its compute lanes works. The task that ends a gap waited
/// for the predecessor that became ready last, seen through the bookkeeping tasks before it on its
/// lane (ties: gradient, activation, update, queue). Where a measured task waited for nothing but
/// its own lane, the gap goes to the lock of its kind: F forward, U update, others backward.
std::vector<IdleCauses> idle_by_cause(const TaskGraph& graph, const Timeline& timeline);

/// The F, B, I, W, R and U of each rank, over all its lanes, by start, then id.
std::vector<std::vector<TaskId>> compute_by_rank(const TaskGraph& graph, const Timeline& timeline);

}  // namespace unlatch
