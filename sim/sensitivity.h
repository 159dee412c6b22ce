// Sensitivity: what a run would gain if one stage's work or one link were a little faster.
#pragma once

#include <optional>
#include <vector>

#include "sim/cost_model.h"

namespace unlatch::sim {

/// The tasks of one kind of one stage: work of its rank, or messages on one of its links.
struct Part {
  Op op = Op::forward;
  Stage stage;
  friend bool operator==(const Part&, const Part&) = default;
};

/// The makespan is the longest of all chains of waits, so it is convex in every cost: near the
/// given costs it falls with the time that the part has on the critical path, and further on by
/// less, as other chains become the longest.
struct Sensitivity {
  Part part;
  int tasks = 0;              ///< of it on the critical path
  nanoseconds on_path{0};     ///< their time there: the derivative of the makespan by the factor
  nanoseconds predicted{0};   ///< gain by the derivative alone
  nanoseconds gain{0};        ///< gain when the graph is run again with the faster part
  std::optional<Part> moved;  ///< where the two differ: what has most more time on the new path
};

/// For every part that takes time, made faster by the share `faster`: the largest gain first, then
/// the largest predicted one, then by stage. Tasks keep their order. Runs on all cores; parts
/// off the critical path gain nothing and are not run again. Where lanes stand still in pauses, the
/// prediction leaves them out. Throws Error for costs with traffic, whose transfers have no time of
/// their own.
std::vector<Sensitivity> sensitivities(const TaskGraph& graph, const CostModel& costs,
                                       const Timeline& timeline, double faster = 0.1);

}  // namespace unlatch::sim
