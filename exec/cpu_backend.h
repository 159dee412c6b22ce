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
#include "exec/cancelled.h"
#include "exec/task_runner.h"

namespace unlatch::exec {

struct CpuOptions {
  int workers = 0;                            ///< 0: as many as lanes or cores, whichever is less
  const std::atomic<bool>* cancel = nullptr;  ///< checked before each task
};

/// As many workers as lanes or cores, whichever is less. The lanes of a rank form a group (each
/// lane its own when there are workers enough); a worker runs its own groups, and any other whose
/// head can run when they have nothing to do. It never blocks on one lane while another
/// can go; with nothing to do it spins briefly, then sleeps. The first failure stops everything.
class CpuBackend : public Backend {
 public:
  CpuBackend(const TaskGraph& graph, TaskRunner& runner, const CpuOptions& options = {});

  void wait_end(LaneId lane, TaskId task) override;
  void wait_start(LaneId lane, TaskId task) override;
  void launch(TaskId task) override;
  /// Starts the workers and waits for them. Throws RunError with the rank and task of the first
  /// failure, or Cancelled.
  Timeline synchronize() override;

  int workers() const { return workers_; }
  /// Workers that a graph would get; what the cost model must know of shared cores.
  static int default_workers(const TaskGraph& graph);
  /// True when F and R of one rank are served by one worker, so that they cannot overlap.
  static bool lanes_share_a_worker(const TaskGraph& graph, int workers);

 private:
  /// Filled while launching, then emptied by one worker at a time: who holds the group.
  struct alignas(64) LaneQueue {
    std::unique_ptr<std::uint32_t[]> commands;  ///< waits and tasks, in order
    std::uint32_t first_slot = 0;               ///< of this lane's events
    std::uint32_t written = 0;                  ///< commands; complete before the workers start
    std::uint32_t launched = 0;                 ///< tasks among them
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
  void make_groups();
  void push(LaneQueue& lane, std::uint32_t command);
  /// Body of a worker; every workers_-th group is its own, so that neighbouring stages, which work
  /// at the same time, are not on the same worker.
  void work(int worker);
  bool help(Workspace& workspace, std::int64_t& now);
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
  int workers_ = 0;
  int spins_ = 0;  ///< idle polls before a worker sleeps; 0 with more workers than cores
  std::chrono::steady_clock::time_point begin_;

  std::vector<LaneQueue> lanes_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> slot_of_task_;
  std::unique_ptr<Event[]> events_;

  std::atomic<bool> stopped_{false};  ///< a failure or a cancellation
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace unlatch::exec
