// The simulator with shared links: how long a transfer takes depends on what else is on its way.
#pragma once

#include "sim/cost_model.h"
#include "sim/traffic.h"

namespace unlatch::sim {

/// As run(graph, costs), one event after the other: every task starts as soon as its lane is free
/// and its inputs have arrived; transfers that are under way share their links max-min fairly.
/// Without transfers the timeline is that of run(), to the nanosecond. Deterministic. Throws Error
/// like run().
Timeline run(const TaskGraph& graph, const CostModel& costs, const Traffic& traffic);

}  // namespace unlatch::sim
