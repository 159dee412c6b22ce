// Traffic: which tasks of a graph move data over links that others may want at the same time.
#pragma once

#include <span>
#include <vector>

#include "schedules/graph.h"
#include "traces/timeline.h"

namespace unlatch::sim {

/// A transfer takes its latency, and then as long as its bytes need at the rate that its route
/// leaves it.
struct Transfer {
  std::vector<int> route;  ///< links, each once; none: nothing holds it up but its latency
  nanoseconds latency{0};
  double bytes = 0;
};

/// Implementations are immutable while a simulation runs.
class Traffic {
 public:
  virtual ~Traffic() = default;
  /// Bytes a second of each link.
  virtual const std::vector<double>& links() const = 0;
  /// What a task moves, all of it at once; the task ends with the last. Nothing where it moves
  /// nothing over links: its cost says how long it takes.
  virtual std::span<const Transfer> transfers(const Task& task) const = 0;
};

}  // namespace unlatch::sim
