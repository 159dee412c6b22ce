// A graph run by SimGrid, to compare its times and its speed with the simulator's.
#pragma once

#include "sim/cost_model.h"
#include "sim/traffic.h"

namespace unlatch::bench {

/// CPU seconds of one run, and the time that it found.
struct PeerRun {
  double build_s = 0;
  double run_s = 0;
  double makespan_s = 0;
};

/// Tasks become executions on a host a rank, sends communications over the links of `traffic`,
/// edges dependencies. The fluid model is that of the simulator: SimGrid's CM02 shares links
/// max-min fairly, without the corrections for TCP of its default model; it weighs flows by their
/// latencies, so that those of `traffic` must be 0. SimGrid holds its state in globals, hence a
/// process a run. Throws Error when that process fails.
PeerRun run_in_simgrid(const TaskGraph& graph, const sim::CostModel& costs,
                       const sim::Traffic& traffic);

}  // namespace unlatch::bench
