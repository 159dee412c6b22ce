// Timeline: when each task of a graph ran, predicted or measured; and its plain facts.
#pragma once

#include <chrono>
#include <vector>

#include "schedules/graph.h"

namespace unlatch {

using std::chrono::nanoseconds;

/// One task's run, from start to end, since the start of the run.
struct Span {
  nanoseconds start{0};
  nanoseconds end{0};
  nanoseconds length() const { return end - start; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// spans[id] belongs to task id of the graph that was run.
struct Timeline {
  LongArray<Span> spans;

  const Span& operator[](TaskId id) const { return spans[id.value]; }
  Span& operator[](TaskId id) { return spans[id.value]; }
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

/// End of the last task (0 for an empty timeline).
nanoseconds makespan(const Timeline& timeline);

/// Milliseconds as a double whose shortest decimal form is the exact value.
inline double to_ms(nanoseconds t) { return static_cast<double>(t.count()) / 1e6; }

}  // namespace unlatch
