// BareStreams: a task graph put on CUDA streams the plainest way, as what the executor is measured
// against.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <vector>

#include "schedules/graph.h"

namespace unlatch::bench {

/// What a backend calls its runner for.
inline bool is_launched(const Task& task) { return is_work(task.op) || task.has(learns); }

/// The host's time a task while it puts tasks on streams. The first ones do not count: the executor
/// makes the events that later tasks use again.
class HostTime {
 public:
  static constexpr int first_tasks = 128;

  void task() {
    if (++tasks_ == first_tasks) begin_ = Clock::now();
  }
  void stop() { end_ = Clock::now(); }
  double us_a_task() const {
    return std::chrono::duration<double, std::micro>(end_ - begin_).count() /
           (tasks_ - first_tasks);
  }

 private:
  using Clock = std::chrono::steady_clock;
  int tasks_ = 0;
  Clock::time_point begin_, end_;
};

/// What one run took.
struct RunTime {
  double device_us = 0;       ///< from the first task's start to the last one's end
  double host_us_a_task = 0;  ///< to put it on the streams
};

/// A stream a lane, a wait an edge between lanes, an event without a clock where somebody waits.
/// Every task is the same busy kernel. Uses the device that is current.
class BareStreams {
 public:
  /// Throws RunError where CUDA fails, as the other calls do.
  BareStreams(const TaskGraph& graph, long long clocks);

  /// All tasks launched one by one.
  RunTime run();
  /// The same, captured once by the constructor as one CUDA graph of the whole run: batches of an
  /// asynchronous schedule overlap.
  RunTime replay();
  double capture_ms() const { return capture_ms_; }  ///< with instantiation and upload

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;
  /// A task with what it waits for and what others wait for.
  struct Step {
    cudaStream_t stream = nullptr;
    bool is_launched = false;
    cudaEvent_t started = nullptr;  ///< null where nobody waits for it
    cudaEvent_t ended = nullptr;
    std::vector<cudaEvent_t> waits{};
  };

  static Owned<cudaStream_t> make_stream();
  cudaEvent_t make_event(unsigned flags);
  void wait_where_lanes_meet(const TaskGraph& graph);
  /// Every lane behind the origin, the tasks, the origin behind every lane.
  void enqueue(HostTime& time);
  void capture();
  double device_us() const;

  long long clocks_;
  int tasks_ = 0;  ///< those launched
  Owned<cudaStream_t> origin_;
  std::vector<Owned<cudaStream_t>> lanes_;
  std::vector<Owned<cudaEvent_t>> events_;
  std::vector<Step> steps_;
  cudaEvent_t fork_, begin_, end_;
  std::vector<cudaEvent_t> joins_;  ///< by lane
  Owned<cudaGraphExec_t> captured_;
  double capture_ms_ = 0;
};

}  // namespace unlatch::bench
