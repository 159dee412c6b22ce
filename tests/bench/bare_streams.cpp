#include "tests/bench/bare_streams.h"

#include "exec/cuda_check.h"
#include "tests/bench/cuda_busy.h"

namespace unlatch::bench {

using exec::cuda::check;

BareStreams::BareStreams(const TaskGraph& graph, long long clocks)
    : clocks_(clocks),
      origin_(make_stream()),
      fork_(make_event(cudaEventDisableTiming)),
      begin_(make_event(cudaEventDefault)),
      end_(make_event(cudaEventDefault)) {
  for (std::size_t lane = 0; lane < graph.lanes().size(); ++lane) {
    lanes_.push_back(make_stream());
    joins_.push_back(make_event(cudaEventDisableTiming));
  }
  for (const Task& task : graph.tasks()) {
    steps_.push_back({.stream = lanes_[task.lane].get(), .is_launched = is_launched(task)});
    if (is_launched(task)) ++tasks_;
  }
  wait_where_lanes_meet(graph);
  capture();
}

BareStreams::Owned<cudaStream_t> BareStreams::make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return Owned<cudaStream_t>(stream);
}

cudaEvent_t BareStreams::make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate");
  events_.emplace_back(event);
  return event;
}

void BareStreams::wait_where_lanes_meet(const TaskGraph& graph) {
  for (const TaskId id : graph.ids()) {
    for (const Edge edge : graph.edges_into(id)) {
      if (graph.task(edge.from()).lane == graph.task(id).lane) continue;
      Step& from = steps_[static_cast<std::size_t>(edge.from().value)];
      cudaEvent_t& event = edge.kind() == EdgeKind::beside ? from.started : from.ended;
      if (event == nullptr) event = make_event(cudaEventDisableTiming);
      steps_[static_cast<std::size_t>(id.value)].waits.push_back(event);
    }
  }
}

void BareStreams::enqueue(HostTime& time) {
  check(cudaEventRecord(fork_, origin_.get()), "cudaEventRecord");
  for (const auto& lane : lanes_) {
    check(cudaStreamWaitEvent(lane.get(), fork_, 0), "cudaStreamWaitEvent");
  }
  for (const Step& step : steps_) {
    for (cudaEvent_t event : step.waits) {
      check(cudaStreamWaitEvent(step.stream, event, 0), "cudaStreamWaitEvent");
    }
    if (step.started != nullptr)
      check(cudaEventRecord(step.started, step.stream), "cudaEventRecord");
    if (step.is_launched) {
      time.task();
      launch_busy(step.stream, clocks_);
    }
    if (step.ended != nullptr) check(cudaEventRecord(step.ended, step.stream), "cudaEventRecord");
  }
  time.stop();
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    check(cudaEventRecord(joins_[lane], lanes_[lane].get()), "cudaEventRecord");
    check(cudaStreamWaitEvent(origin_.get(), joins_[lane], 0), "cudaStreamWaitEvent");
  }
  check(cudaGetLastError(), "kernel launch");
}

double BareStreams::device_us() const {
  constexpr double us_a_ms = 1000;
  check(cudaEventSynchronize(end_), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
  return static_cast<double>(ms) * us_a_ms;
}

RunTime BareStreams::run() {
  HostTime time;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaEventRecord(begin_, origin_.get()), "cudaEventRecord");
  enqueue(time);
  check(cudaEventRecord(end_, origin_.get()), "cudaEventRecord");
  return {device_us(), time.us_a_task()};
}

void BareStreams::capture() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  HostTime not_wanted;
  check(cudaStreamBeginCapture(origin_.get(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  enqueue(not_wanted);
  cudaGraph_t found = nullptr;
  check(cudaStreamEndCapture(origin_.get(), &found), "cudaStreamEndCapture");
  const Owned<cudaGraph_t> graph(found);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph.get(), 0), "cudaGraphInstantiate");
  captured_.reset(made);
  check(cudaGraphUpload(made, origin_.get()), "cudaGraphUpload");
  check(cudaStreamSynchronize(origin_.get()), "cudaStreamSynchronize");
  capture_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

RunTime BareStreams::replay() {
  using Clock = std::chrono::steady_clock;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaEventRecord(begin_, origin_.get()), "cudaEventRecord");
  const auto start = Clock::now();
  check(cudaGraphLaunch(captured_.get(), origin_.get()), "cudaGraphLaunch");
  const std::chrono::duration<double, std::micro> host = Clock::now() - start;
  check(cudaEventRecord(end_, origin_.get()), "cudaEventRecord");
  return {device_us(), host.count() / tasks_};
}

}  // namespace unlatch::bench
