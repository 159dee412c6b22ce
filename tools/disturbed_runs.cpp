#include "tools/disturbed_runs.h"

#include "sim/monte_carlo.h"
#include "sim/simulator.h"
#include "sim/time_order.h"
#include "tools/simulation.h"

namespace unlatch::tools {

DisturbedRuns::DisturbedRuns(const ScheduleSpec& spec, const Workload& workload)
    : workload_(workload),
      schedule_(workload.schedule(spec, workload.shape)),
      tasks_(schedule_.build()),
      task_costs_(workload.costs_for(spec, tasks_,
                                     workload.layers ? busy_ranks(spec, workload, tasks_) : 1)),
      costs_(task_costs_.times, task_costs_.traffic),
      disturbance_(workload.disturbance) {
  if (task_costs_.placement) disturbance_.node_of_rank = task_costs_.placement->nodes;
}

TaskGraph DisturbedRuns::graph(const sim::Disturbance& disturbance, int run) const {
  return graph_of_run(schedule_, tasks_, costs_, workload_, disturbance, run);
}

nanoseconds DisturbedRuns::makespan_of(const TaskGraph& graph, const sim::Disturbance& disturbance,
                                       int run) const {
  return makespan(sim::run(graph, costs_of_run(graph, disturbance, run)));
}

sim::Distribution DisturbedRuns::makespans(const sim::Disturbance& disturbance, int runs) const {
  if (sim::awaits_order(schedule_)) {
    return sim::distribution(sim::times_of_runs(
        0, runs, [&](int run) { return makespan_of(graph(disturbance, run), disturbance, run); }));
  }
  const TaskGraph same = graph(disturbance, 0);
  return sim::distribution(
      sim::times_of_runs(0, runs, [&](int run) { return makespan_of(same, disturbance, run); }));
}

nanoseconds DisturbedRuns::undisturbed() const { return makespan_of(graph({}, 0), {}, 0); }

}  // namespace unlatch::tools
