// simulate --stream: the figures of a run whose tasks are never held.
#pragma once

#include "tools/workload.h"

namespace unlatch::tools {

/// The command; returns its exit code. Throws Error for flags that ask for single tasks, for costs
/// of layers, for several random runs, and for what the memory limit does not hold.
int simulate_streamed(const Arguments& arguments, const ScheduleSpec& spec);

}  // namespace unlatch::tools
