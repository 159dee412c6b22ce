// CpuBackend: lanes as ordered queues served by worker threads.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/backend.h"
#include "exec/task_runner.h"

namespace unlatch::exec {

/// Thrown by synchronize() when the run was cancelled from outside.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

struct CpuOptions {
  int workers = 0;                            ///< 0: as many as lanes or cores, whichever is less
  const std::atomic<bool>* cancel = nullptr;  ///< checked before each task
};

/// As many workers as lanes or cores, whichever is less. The lanes of a rank form a group (each
/// lane its own when there are workers enough); a worker takes any group whose head can run, its
/// own first, and runs it until nothing in it can go. It never blocks on one lane while another
/// can go; with nothing to do it spins briefly, then sleeps. The first failure stops everything.
class CpuBackend : public Backend {
 public:
  CpuBackend(const TaskGraph& graph, TaskRunner& runner, const CpuOptions& options = {});
  ~CpuBackend() override;
  CpuBackend(const CpuBackend&) = delete;
  CpuBackend& operator=(const CpuBackend&) = delete;

  void wait_end(LaneId lane, TaskId task) override;
  void wait_start(LaneId lane, TaskId task) override;
  void launch(TaskId task) override;
  /// Throws RunError with the rank and task of the first failure, or Cancelled.
  Timeline synchronize() override;

  int workers() const { return static_cast<int>(workers_.size()); }
  /// Workers that a graph would get; what the cost model must know of shared cores.
  static int default_workers(const TaskGraph& graph);
  /// True when F and R of one rank are served by one worker, so that they cannot overlap.
  static bool lanes_share_a_worker(const TaskGraph& graph, int workers);

 private:
  /// One producer (the launching thread), one consumer at a time (who holds the group).
  struct alignas(64) LaneQueue {
    std::unique_ptr<std::uint32_t[]> commands;  ///< waits and tasks, in order
    std::uint32_t first_slot = 0;               ///< of this lane's events
    std::uint32_t written = 0;                  ///< producer only
    std::uint32_t launched = 0;                 ///< producer only
    std::atomic<std::uint32_t> published{0};
    alignas(64) std::atomic<std::uint32_t> next{0};  ///< written by the holder of the group
    std::uint32_t run = 0;                           ///< tasks run; holder only
  };
  struct alignas(64) Group {
    std::vector<int> lanes;
    std::atomic<bool> held{false};
  };
  /// Times of a task in ns since the start of the run, plus one; 0 while it has not happened.
  struct Event {
    std::atomic<std::int64_t> start{0};
    std::atomic<std::int64_t> end{0};
  };

  void make_queues();
  void make_groups(int workers);
  void push(LaneQueue& lane, std::uint32_t command);
  /// Body of a worker whose first group is `home`.
  void work(std::size_t home);
  bool serve(Group& group, Workspace& workspace, std::int64_t& now);
  bool advance(LaneQueue& lane, Workspace& workspace, std::int64_t& now);
  std::int64_t over_since(std::uint32_t command) const;
  bool can_go(const Group& group) const;
  bool anything_can_go() const;
  bool all_done() const;
  void execute(TaskId id, std::uint32_t slot, Workspace& workspace, std::int64_t& now);
  void sleep_until_change();
  void wake_sleepers();
  void wake_all();
  void stop(std::exception_ptr failure);
  std::int64_t clock() const;

  const TaskGraph& graph_;
  TaskRunner& runner_;
  const std::atomic<bool>* cancel_;
  std::chrono::steady_clock::time_point begin_;

  std::vector<LaneQueue> lanes_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> slot_of_task_;
  std::unique_ptr<Event[]> events_;

  std::atomic<bool> closed_{false};   ///< nothing more will be launched
  std::atomic<bool> stopped_{false};  ///< a failure or a cancellation
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  int spins_ = 0;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> workers_;
};

}  // namespace unlatch::exec
