// When a task runs: the step that every simulation without contention repeats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sim/simulator.h"

namespace unlatch::sim {

/// As soon as all that it waits for has ended, and R with the F beside it. spans[id] belongs to
/// task id. Adds 1 to `overflows` where the end does not fit 64-bit nanoseconds.
inline Span span_of(const Task& task, std::span<const Edge> waits_for, const Span* spans,
                    nanoseconds length, const CostModel& costs, std::int64_t& overflows) {
  std::int64_t ready = 0;
  std::int32_t beside = -1;
  for (const Edge edge : waits_for) {
    const Span& from = spans[edge.from().value];
    if (edge.kind() == EdgeKind::beside) [[unlikely]] {
      beside = edge.from().value;
      ready = std::max<std::int64_t>(ready, from.start.count());
    } else {
      ready = std::max<std::int64_t>(ready, from.end.count());
    }
  }
  std::int64_t end = 0;
  overflows += __builtin_add_overflow(ready, std::int64_t{length.count()}, &end) ? 1 : 0;
  if (beside >= 0) [[unlikely]] {
    return recompute_beside(nanoseconds(ready), length, spans[beside], costs.overlap(task.stage));
  }
  return {nanoseconds(ready), nanoseconds(end)};
}

}  // namespace unlatch::sim
