// TaskStream: the tasks of a schedule one after the other, as its graph would hold them, without
// the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "schedules/schedule.h"
#include "schedules/transfers.h"

namespace unlatch {

/// A task as it passes by. Edges name other tasks by their numbers, which are used again as soon as
/// no later task can wait for their owner.
struct StreamedTask {
  Task task;  ///< its lane is that of a graph without transfers; a send has its producer's
  Rank rank;
  std::int32_t number = 0;
  std::span<const Edge> waits_for;
};

/// The order, edges, versions and flags of the tasks are those of
/// with_transfers(schedule.build(), links). Memory grows with ranks and with what is in flight.
class TaskStream {
 public:
  /// Throws Error where only a whole graph can say the order of the tasks: updates that a server
  /// applies one by one.
  /// `first_length`: tasks in flight that are expected; only time depends on it.
  TaskStream(const Schedule& schedule, Links links, int first_length = 1 << 14);

  /// Calls take(task) for each. How much is in flight is found by trying: restart() comes before
  /// each try, and what was taken before it does not count. Throws Error with the first broken
  /// rule.
  void run(const std::function<void()>& restart,
           const std::function<void(const StreamedTask&)>& take) const;

 private:
  const Schedule& schedule_;
  Links links_;
  std::int64_t first_length_;
};

}  // namespace unlatch
