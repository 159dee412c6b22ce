// When a task runs: the step that every simulation without contention repeats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sim/simulator.h"

namespace unlatch::sim {

/// When a task can start, and the F beside which it runs, or -1.
struct Ready {
  std::int64_t at = 0;
  std::int32_t beside = -1;
};

/// As soon as all that it waits for has ended. spans[id] belongs to task id.
inline Ready ready_of(std::span<const Edge> waits_for, const Span* spans) {
  Ready ready;
  for (const Edge edge : waits_for) {
    const Span& from = spans[edge.from().value];
    if (edge.kind() == EdgeKind::beside) [[unlikely]] {
      ready.beside = edge.from().value;
      ready.at = std::max<std::int64_t>(ready.at, from.start.count());
    } else {
      ready.at = std::max<std::int64_t>(ready.at, from.end.count());
    }
  }
  return ready;
}

/// Of a task that starts when it can, R with the F beside it. Adds 1 to `overflows` where the end
/// does not fit 64-bit nanoseconds.
inline Span span_of(const Task& task, std::span<const Edge> waits_for, const Span* spans,
                    nanoseconds length, const CostModel& costs, std::int64_t& overflows) {
  const auto [ready, beside] = ready_of(waits_for, spans);
  std::int64_t end = 0;
  overflows += __builtin_add_overflow(ready, std::int64_t{length.count()}, &end) ? 1 : 0;
  if (beside >= 0) [[unlikely]] {
    return recompute_beside(nanoseconds(ready), length, spans[beside], costs.overlap(task.stage));
  }
  return {nanoseconds(ready), nanoseconds(end)};
}

}  // namespace unlatch::sim
