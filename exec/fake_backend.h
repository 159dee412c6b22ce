// FakeBackend: the executor without work, on a clock that is a number.
#pragma once

#include <functional>
#include <vector>

#include "exec/backend.h"

namespace unlatch::exec {

/// Runs nothing and keeps each lane's time by the given lengths. Holds the executor and the
/// simulator together: the same lengths must give the simulator's timeline.
class FakeBackend : public Backend {
 public:
  using Length = std::function<nanoseconds(const Task&)>;
  /// `overlap` as the contract's --overlap: how much of the shorter of F and R hides.
  FakeBackend(const TaskGraph& graph, Length length, double overlap = 1.0);

  void wait_end(LaneId lane, TaskId task) override;
  void wait_start(LaneId lane, TaskId task) override;
  void launch(TaskId task) override;
  Timeline synchronize() override { return timeline_; }

 private:
  const TaskGraph& graph_;
  Length length_;
  double overlap_;
  Timeline timeline_;
  std::vector<nanoseconds> lane_time_;
  std::vector<TaskId> beside_;  ///< by lane: the F that the next task starts with; -1 for none
};

}  // namespace unlatch::exec
