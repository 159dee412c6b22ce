// races: two unordered tasks that touch the same weights, activation or gradient, one writing.
#pragma once

#include <vector>

#include "schedules/graph.h"
#include "schedules/violation.h"

namespace unlatch {

/// Every pair of tasks found, up to `limit`, as violations of rule "race" with both tasks named.
/// Weights are written by U and read by F, R, B, I (unless from a stash, which nobody writes);
/// tapes are written by F or R and read by B, I, W; stored inputs by F and R; what crosses a stage
/// boundary by its producer and consumer; the weight gradient by B, W and U; batch-norm running
/// statistics by F only. One sweep with a clock a lane, as a race detector for threads does it.
std::vector<Violation> races(const TaskGraph& graph, int limit = 10);

}  // namespace unlatch
