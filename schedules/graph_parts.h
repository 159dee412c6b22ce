// Parts of a graph: where a run may stop between batches, and the tasks of a part as a graph.
#pragma once

#include <span>
#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// By task: the first batch that cannot be over without it, of which it is or which waits for it.
/// So the tasks with numbers below any b wait for each other only: all that the batches before b
/// need, and no more.
std::vector<int> first_batches_that_need(const TaskGraph& graph);

/// Some tasks, given in their order, as a graph of the same shape and lanes. What they wait for
/// outside of it counts as over.
TaskGraph part_of(const TaskGraph& graph, std::span<const TaskId> tasks);

}  // namespace unlatch
