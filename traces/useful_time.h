// Useful time: which tasks utilization counts, and shares of times.
#pragma once

#include <optional>

#include "schedules/task.h"
#include "traces/timeline.h"

namespace unlatch {

/// F and B, whole or in halves; recomputation and updates are not.
inline bool is_useful(Op op) {
  return op == Op::forward || op == Op::backward || op == Op::backward_input ||
         op == Op::backward_weight;
}

/// Empty for a whole of no length.
inline std::optional<double> ratio(nanoseconds part, nanoseconds whole) {
  if (whole.count() == 0) return std::nullopt;
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

}  // namespace unlatch
