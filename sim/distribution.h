// Distribution: what a figure looks like over many random runs.
#pragma once

#include <vector>

#include "traces/timeline.h"

namespace unlatch::sim {

/// Mean and percentiles by nearest rank: p95 is the smallest value that at least 95 % of the runs
/// do not exceed, so it is always the time of a run.
struct Distribution {
  int runs = 0;
  nanoseconds mean{0};  ///< to the nearest nanosecond
  nanoseconds p50{0};
  nanoseconds p95{0};
  nanoseconds p99{0};
  /// 95 % confidence interval of the mean, by the normal distribution: from a few dozen runs on.
  nanoseconds mean_low{0};
  nanoseconds mean_high{0};
  friend bool operator==(const Distribution&, const Distribution&) = default;
};

Distribution distribution(std::vector<nanoseconds> values);

}  // namespace unlatch::sim
