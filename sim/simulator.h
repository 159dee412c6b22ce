// The simulator: one pass over the graph in its topological order.
#pragma once

#include "sim/cost_model.h"

namespace unlatch::sim {

/// Runs every task as soon as its lane is free and its inputs have arrived. Deterministic: the
/// same graph and costs give the same timeline. Time O(tasks + edges); lanes are FIFO servers.
/// Costs with traffic go through the event simulator, those with fewer workers than lanes through
/// that of shared workers.
/// Throws Error when the run would not fit 64-bit nanoseconds (292 years).
Timeline run(const TaskGraph& graph, const CostModel& costs);

/// Time from the common start of F and R beside each other until both are done:
/// max(F,R) + (1-W) min(F,R), to the nearest nanosecond (decoupled.md 1.5).
nanoseconds length_beside(nanoseconds forward, nanoseconds recompute, double overlap);

/// Of an R that could start at `ready`, `forward` being the F beside it, by itself: the last
/// `recompute` of [s, s + length_beside()], s being the start of that F.
Span recompute_beside(nanoseconds ready, nanoseconds recompute, const Span& forward,
                      double overlap);

}  // namespace unlatch::sim
