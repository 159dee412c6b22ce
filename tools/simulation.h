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

/// The rank that needs most above the memory limit.
struct Excess {
  Rank rank;
  std::int64_t needed = 0;
  std::int64_t limit = 0;
  std::string task;  ///< at whose start or end it first exceeds the limit
  std::string text() const;
};

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
  std::vector<models::StageRange> partition;      ///< measured costs only
  std::optional<Excess> excess;

  std::int64_t worst_peak_bytes() const;
};

/// Tells a schedule whose server has no order yet that of simulated time in random run `run`.
void order_in_time(Schedule& schedule, const sim::StageCosts& costs, const Workload& workload,
                   int run);

Simulation simulate(const ScheduleSpec& spec, const Workload& workload);

/// Writes what --trace and --tasks ask for.
void write_files(const Arguments& arguments, const Simulation& simulation);
/// Those two flags.
std::vector<Flag> file_flags();

}  // namespace unlatch::tools
