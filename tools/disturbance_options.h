// Disturbance options: --slow, --slow-link, --pause, --straggler and --seed, read and checked.
#pragma once

#include "schedules/graph.h"
#include "sim/disturbance.h"
#include "tools/command.h"

namespace unlatch::tools {

FlagGroup straggler_flags();

/// What knows about links and nodes besides these flags.
struct Surroundings {
  bool cluster = false;           ///< it says which ranks share a node
  bool links_are_shared = false;  ///< --contention fair
};

/// Throws Error for ranks from `ranks` on, and for what these surroundings do not allow.
sim::Disturbance read_disturbance(const Arguments& arguments, int ranks, Surroundings surroundings);

/// Says so when links are slow or disturbed over which no message of that graph takes time.
void note_links_without_time(const sim::Disturbance& disturbance, const TaskGraph& graph);

}  // namespace unlatch::tools
