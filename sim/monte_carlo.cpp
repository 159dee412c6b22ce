#include "sim/monte_carlo.h"

#include <algorithm>

#include "sim/parallel.h"

namespace unlatch::sim {

std::vector<nanoseconds> times_of_runs(int first, int runs,
                                       const std::function<nanoseconds(int run)>& time_of) {
  std::vector<nanoseconds> times(static_cast<std::size_t>(std::max(runs, 0)));
  in_parallel(runs, [&](int i) { times[static_cast<std::size_t>(i)] = time_of(first + i); });
  return times;
}

}  // namespace unlatch::sim
