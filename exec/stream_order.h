// StreamOrder: where the host stands while it puts tasks on streams far ahead of the device.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "exec/streams.h"

namespace unlatch::exec {

/// Every task has a mark at its start and one at its end. Marks are used again `window` tasks
/// later; before that the host waits for the task that had them, notes its times and forgets it, so
/// that no mark is set again while somebody may still wait for it. The host blocks nowhere else.
/// For one host thread.
class StreamOrder {
 public:
  static constexpr int usual_window = 1 << 14;

  /// Everything referred to must outlive it.
  StreamOrder(const TaskGraph& graph, Streams& streams, int window = usual_window);

  /// Marks that it uses: 0 to marks()-1.
  static constexpr int marks(int window) { return 2 * window; }

  /// What comes on the lane later starts after the start, or the end, of a task begun before.
  void wait_start(LaneId lane, TaskId task);
  void wait_end(LaneId lane, TaskId task);

  /// Between begin() and end() the task's work is put on its lane.
  void begin(TaskId task);
  void end();
  /// The task at hand; none before the first, and between two.
  std::optional<TaskId> current() const { return current_; }
  LaneId lane() const;

  /// Of the task in the window: another gets it only once this one is over and its calls are made.
  int place(TaskId task) const { return task.value % window_; }
  int window() const { return window_; }
  /// The latest task that has, or had, the place.
  TaskId latest_at(int place) const;

  /// Calls it once the task at hand is done and its times are known; such calls come in the order
  /// of the tasks.
  void then(std::function<void()> call);
  /// True when the host knows that the device is done with a task.
  bool is_over(TaskId task) const { return task.value < oldest_; }
  /// True when nobody has to wait for it any more.
  bool is_past(TaskId task) const {
    return is_over(task) || (task != current_ && streams_.is_behind(end_mark(task)));
  }
  /// Waits until that is so, and for all tasks before.
  void wait_until_over(TaskId task);
  /// True once a task put earlier, or a call of its, has thrown; what it threw says which.
  bool has_failed() const { return failed_; }
  /// Waits for all tasks. Throws RunError with the rank and task of the first that failed.
  Timeline finish();

 private:
  int start_mark(TaskId task) const { return 2 * place(task); }
  int end_mark(TaskId task) const { return start_mark(task) + 1; }
  void retire_oldest();

  const TaskGraph& graph_;
  Streams& streams_;
  int window_;
  std::optional<TaskId> current_;
  int begun_ = 0;   ///< tasks begun; they come in the order of the graph
  int oldest_ = 0;  ///< the first whose marks are in use
  bool failed_ = false;
  std::vector<std::vector<std::function<void()>>> calls_;  ///< by place in the window
  Timeline timeline_;
};

}  // namespace unlatch::exec
