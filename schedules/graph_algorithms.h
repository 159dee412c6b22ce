// Graph algorithms off the hot path: cycles, critical path, transitive reduction (Boost.Graph).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// Visits the predecessors of a node.
using Predecessors = std::function<void(int node, const std::function<void(int)>& visit)>;

/// A shortest cycle of a graph of `nodes` nodes, in the direction of waiting (each node waits for
/// the next, the last for the first); empty when there is none. No recursion. Looks for the
/// shortest from up to 1000 nodes of the smallest knot, so that a huge knot stays quick.
std::vector<int> shortest_cycle(int nodes, const Predecessors& predecessors);

/// "deadlock: these 3 tasks wait for each other: a -> b -> c -> a"; a long cycle is shortened to
/// its first and last five places and its length.
std::string cycle_text(const std::vector<std::string>& places);

/// A longest path through the graph by the given length of each task: from a task without
/// predecessors to the one that ends last. Ties go to the smaller id.
std::vector<TaskId> critical_path(const TaskGraph& graph,
                                  const std::function<long long(TaskId)>& length);

/// Edges that no other path implies, as (from, to), sorted; for drawing small graphs. Throws
/// Error above 20 000 tasks (its bit matrix is quadratic).
std::vector<std::pair<TaskId, TaskId>> transitive_reduction(const TaskGraph& graph);

}  // namespace unlatch
