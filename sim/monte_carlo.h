// Monte Carlo: many random runs on all cores, the same result whatever their number.
#pragma once

#include <functional>
#include <vector>

#include "traces/timeline.h"

namespace unlatch::sim {

/// time_of(run) for the runs first .. first + runs - 1, in this order. The calls come from several
/// threads at once and must depend on nothing but the number of the run. Rethrows what one throws.
std::vector<nanoseconds> times_of_runs(int first, int runs,
                                       const std::function<nanoseconds(int run)>& time_of);

}  // namespace unlatch::sim
