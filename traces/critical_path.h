// The critical path of a run: the chain of waits that its makespan consists of.
#pragma once

#include <vector>

#include "traces/timeline.h"

namespace unlatch {

struct CriticalPath {
  std::vector<TaskId> tasks;  ///< in time order; the middle is left out where it is too long
  int length = 0;             ///< tasks on the whole path
};

/// Walks back from the last task, each time to the predecessor that became ready last (ties: the
/// same lane, then the order of the graph). Hidden tasks are walked through and not listed. Keeps
/// the first and last `most` / 2 tasks; 0 keeps all.
CriticalPath critical_path(const TaskGraph& graph, const Timeline& timeline, int most = 1000);

}  // namespace unlatch
