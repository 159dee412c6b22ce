// Simulation: one schedule under one workload, with everything that simulate and compare print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/distribution.h"
#include "sim/steady_state.h"
#include "tools/workload.h"
#include "traces/memory.h"
#include "traces/metrics.h"

namespace unlatch::tools {

/// A rank that needs more than the memory limit.
struct Excess {
  Rank rank;
  std::int64_t needed = 0;
  std::int64_t limit = 0;
  TaskId cause{-1};  ///< task at whose start or end it first exceeds the limit; -1: the weights
  std::string task;  ///< its label, or "the weights alone"
  std::string text() const;
};

/// Nothing when that rank keeps to the limit.
std::optional<Excess> excess_of(const TaskGraph& graph, const RankMemory& memory, Rank rank,
                                std::int64_t limit);

struct Simulation {
  ScheduleSpec spec;
  Shape shape;  ///< the schedule's own: a batch in one piece where it has no micro-batches
  Options options;
  TaskGraph graph;
  Timeline timeline;  ///< of run 0 where costs are random
  Metrics metrics;
  std::vector<RankMemory> memory;
  sim::SteadyState steady;
  sim::BatchWork work;
  std::optional<sim::Distribution> distribution;  ///< of the makespans of R random runs
  std::optional<nanoseconds> undisturbed;         ///< makespan, where anything disturbs the run
  std::vector<models::StageRange> partition;      ///< costs of layers only
  std::optional<Placement> placement;             ///< on a cluster
  std::optional<Excess> excess;                   ///< of the rank that needs most
  files::Sends sends = files::Sends::buffered;    ///< that the times are of
  bool one_send_engine = false;                   ///< likewise

  std::int64_t worst_peak_bytes() const;
  /// Makespan (the mean of random runs) over the undisturbed one; nothing where that is 0 or
  /// nothing disturbs the run.
  std::optional<double> slow_down() const;
};

/// Tells a schedule whose server has no order yet that of simulated time in random run `run`.
void order_in_time(Schedule& schedule, const sim::StageCosts& costs, const Workload& workload,
                   const sim::Disturbance& disturbance, int run);

/// The graph of a random run, transfers included. `in_turn`: that of the schedule as it is.
TaskGraph graph_of_run(const Schedule& schedule, const TaskGraph& in_turn,
                       const sim::StageCosts& costs, const Workload& workload,
                       const sim::Disturbance& disturbance, int run);

/// How many ranks work at once on average, with the costs of one working alone: workers share
/// caches, memory and clock rate, so costs depend on it.
double busy_ranks(const ScheduleSpec& spec, const Workload& workload, const TaskGraph& tasks);

/// Summed over the ranks.
IdleCauses idle_of_all_ranks(const Metrics& metrics);

Simulation simulate(const ScheduleSpec& spec, const Workload& workload);

/// Staleness is a figure of the steady state. A stage with fewer updates than that never reaches
/// it, and gets what its method promises.
void complete_staleness(const ScheduleSpec& spec, Shape shape, std::vector<StageMetrics>& stages);

}  // namespace unlatch::tools
