// Disturbed runs: one schedule with its costs, run again under disturbances of any kind.
#pragma once

#include "schedules/schedule.h"
#include "sim/distribution.h"
#include "sim/straggler_costs.h"
#include "tools/workload.h"

namespace unlatch::tools {

class DisturbedRuns {
 public:
  /// The workload must outlive it.
  DisturbedRuns(const ScheduleSpec& spec, const Workload& workload);

  /// Without transfers.
  const TaskGraph& tasks() const& { return tasks_; }
  const TaskCosts& task_costs() const& { return task_costs_; }
  const sim::StageCosts& costs() const& { return costs_; }
  /// Those of the workload, with the nodes of its ranks.
  const sim::Disturbance& disturbance() const& { return disturbance_; }

  /// The costs of one run on its graph.
  sim::StragglerCosts costs_of_run(const TaskGraph& graph, const sim::Disturbance& disturbance,
                                   int run) const {
    return {costs_, graph, disturbance, run};
  }
  /// The graph of one run, transfers included: servers may take updates in another order in each.
  TaskGraph graph(const sim::Disturbance& disturbance, int run) const;

  /// Makespans of runs 0 .. runs - 1, on all cores; the same whatever their number.
  sim::Distribution makespans(const sim::Disturbance& disturbance, int runs) const;
  /// Without any disturbance.
  nanoseconds undisturbed() const;

 private:
  nanoseconds makespan_of(const TaskGraph& graph, const sim::Disturbance& disturbance,
                          int run) const;

  const Workload& workload_;
  Schedule schedule_;
  TaskGraph tasks_;
  TaskCosts task_costs_;
  sim::StageCosts costs_;
  sim::Disturbance disturbance_;
};

}  // namespace unlatch::tools
