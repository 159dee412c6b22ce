// The simulator of fewer cores than ranks: the compute lanes share worker threads, as they do on
// the CPU backend of a small machine.
#pragma once

#include "sim/cost_model.h"

namespace unlatch::sim {

/// True when these costs have workers, and fewer than `graph` has lanes that compute.
bool shares_workers(const TaskGraph& graph, const CostModel& costs);

/// As run(graph, costs), but a task of a compute lane also waits for one of costs.workers()
/// workers, each of which is one core. Their rules are those of the executor: a rank is held by one
/// worker at a time, which runs what can go there, F before R, and no task is interrupted; worker w
/// takes turns between ranks w, w + workers, .. and helps at any other when none of its own could
/// go for 20 microseconds. R beside F follows it on the same worker and takes what --overlap
/// leaves. Links need no worker. Deterministic. Throws Error like run().
Timeline run_on_workers(const TaskGraph& graph, const CostModel& costs);

}  // namespace unlatch::sim
