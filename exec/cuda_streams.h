// CudaStreams: a stream a lane, an event a mark, one clock for all devices, and CUDA graphs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/cuda_check.h"
#include "exec/cuda_kernels.h"
#include "exec/stream_order.h"
#include "exec/stream_replay.h"

namespace unlatch::exec::cuda {

/// For one host thread.
class CudaStreams : public GraphStreams {
 public:
  struct Options {
    int window = StreamOrder::usual_window;  ///< of the order that sets the marks
    bool graphs = false;
    std::chrono::seconds timeout{600};  ///< for the device to come to an end with what it was given
    /// Called while the host waits, and once more, with true, when it waits no longer.
    std::function<void(bool too_late)> watch = [](bool) {};
  };
  /// The device of each lane, as CUDA counts them. Throws RunError when it cannot be used.
  CudaStreams(const TaskGraph& graph, std::vector<int> devices, const Options& options);
  ~CudaStreams() override;
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  StreamHandle stream(LaneId lane) const { return streams_[lane.value]; }
  int device(LaneId lane) const { return devices_[lane.value]; }
  /// Makes it the device of the calls that follow.
  void select(int device);
  /// Somebody else has selected one.
  void select_none() { selected_ = -1; }
  /// Waits for all work that was put on any lane. Throws RunError when it failed.
  void finish();
  /// Whatever happened: nothing is on its way any more.
  void wait_until_idle() noexcept;
  /// Whose tasks give the ranges that profilers show their names: one a task, and one a graph that
  /// is launched, from its first task to its last.
  void name_tasks_of(const StreamOrder& order) { order_ = &order; }

  void record(int mark, LaneId lane) override;
  void wait(LaneId lane, int mark) override;
  nanoseconds reached(int mark) override;

  void fork_lanes() override;
  void join_lanes() override;
  void begin_capture() override;
  int end_capture() override;
  void give_up_capture() noexcept override;
  void launch_graph(int graph, int first, int last) override;
  void destroy_graph(int graph) noexcept override;
  void note_piece(int number) override;
  void wait_for_piece(int number) override;

 private:
  /// A moment on one device that times are counted from.
  struct Base {
    cudaEvent_t event = nullptr;
    nanoseconds time{0};
  };
  /// Of one mark on one device.
  struct Events {
    cudaEvent_t timed = nullptr;
    cudaEvent_t inside = nullptr;  ///< for waits inside a graph, where the timed one is a node
  };

  void make_origin();
  void start_clocks();
  std::string label_at(int mark) const;
  void name_range(int mark);
  void end_range();
  /// The mark's events on the device where it was set last.
  Events& events(int mark);
  void wait_for(cudaEvent_t event) const;
  static nanoseconds time_of(cudaEvent_t event, const Base& base);
  void move_base(Base& base, int mark);

  const TaskGraph& graph_;
  const StreamOrder* order_ = nullptr;
  bool in_range_ = false;     ///< of a task
  std::vector<int> devices_;  ///< by lane
  Options options_;
  int selected_ = -1;
  std::vector<StreamHandle> streams_;          ///< by lane
  std::vector<int> device_of_mark_;            ///< where it was set last
  std::map<int, std::vector<Events>> events_;  ///< by device and mark; null until they are used
  std::map<int, Base> bases_;                  ///< by device; empty before the run

  StreamHandle origin_ = nullptr;  ///< with graphs: where they are launched, as all below
  cudaEvent_t forked_ = nullptr;
  std::vector<cudaEvent_t> joined_;  ///< by lane
  std::vector<cudaEvent_t> pieces_;  ///< by number modulo pieces_noted
  bool capturing_ = false;
  std::vector<cudaGraphExec_t> graphs_;
};

}  // namespace unlatch::exec::cuda
