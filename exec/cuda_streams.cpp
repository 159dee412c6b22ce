#include "exec/cuda_streams.h"

#include <nvtx3/nvToolsExt.h>

#include <cmath>
#include <thread>
#include <utility>

#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

cudaEvent_t new_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return event;
}

StreamHandle new_stream() {
  StreamHandle stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

}  // namespace

CudaStreams::CudaStreams(const TaskGraph& graph, std::vector<int> devices, const Options& options)
    : graph_(graph),
      devices_(std::move(devices)),
      options_(options),
      device_of_mark_(static_cast<std::size_t>(StreamOrder::marks(options.window)), 0) {
  for (const int device : devices_) {
    select(device);
    streams_.push_back(new_stream());
  }
  if (options.graphs) make_origin();
}

CudaStreams::~CudaStreams() {
  wait_until_idle();  // after a failure work may still be on its way
  if (gave_up()) return;
  for (const StreamHandle stream : streams_) cudaStreamDestroy(stream);
  for (const auto& [device, all] : events_) {
    for (const Events& events : all) {
      if (events.timed != nullptr) cudaEventDestroy(events.timed);
      if (events.inside != nullptr) cudaEventDestroy(events.inside);
    }
  }
  for (const auto& [device, base] : bases_) cudaEventDestroy(base.event);
  for (const cudaEvent_t event : joined_) cudaEventDestroy(event);
  for (const cudaEvent_t event : pieces_) cudaEventDestroy(event);
  if (forked_ != nullptr) cudaEventDestroy(forked_);
  if (origin_ != nullptr) cudaStreamDestroy(origin_);
}

void CudaStreams::select(int device) {
  if (std::exchange(selected_, device) == device) return;
  check(cudaSetDevice(device), "cudaSetDevice");
}

void CudaStreams::finish() {
  for (const StreamHandle stream : streams_) {
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  if (origin_ != nullptr) check(cudaStreamSynchronize(origin_), "cudaStreamSynchronize");
}

void CudaStreams::wait_until_idle() noexcept {
  for (const int device : devices_) {
    if (gave_up()) return;
    cudaSetDevice(device);
    cudaDeviceSynchronize();
  }
  selected_ = -1;
}

// ---- marks -------------------------------------------------------------------------------------

CudaStreams::Events& CudaStreams::events(int mark) {
  const int device = device_of_mark_[static_cast<std::size_t>(mark)];
  std::vector<Events>& all = events_[device];
  if (all.empty()) all.resize(device_of_mark_.size());
  Events& events = all[static_cast<std::size_t>(mark)];
  if (events.timed == nullptr) {
    select(device);
    events.timed = new_event(cudaEventDefault);
    if (options_.graphs) events.inside = new_event(cudaEventDisableTiming);
  }
  return events;
}

/// Marks a task's stretch of the host's time for profilers, which show its kernels under its name.
void CudaStreams::name_range(int mark) {
  end_range();
  const bool starts = mark % 2 == 0;
  if (!starts) return;
  nvtxRangePushA(label_at(mark).c_str());
  in_range_ = true;
}

void CudaStreams::end_range() {
  if (std::exchange(in_range_, false)) nvtxRangePop();
}

std::string CudaStreams::label_at(int mark) const {
  return label(graph_.task(order_->latest_at(mark / 2)));
}

void CudaStreams::record(int mark, LaneId lane) {
  if (bases_.empty()) start_clocks();
  if (order_ != nullptr) name_range(mark);
  device_of_mark_[static_cast<std::size_t>(mark)] = device(lane);
  const Events& of_mark = events(mark);
  select(device(lane));
  if (capturing_) {
    check(cudaEventRecordWithFlags(of_mark.timed, stream(lane), cudaEventRecordExternal),
          "cudaEventRecordWithFlags");
    check(cudaEventRecord(of_mark.inside, stream(lane)), "cudaEventRecord");
  } else {
    check(cudaEventRecord(of_mark.timed, stream(lane)), "cudaEventRecord");
  }
}

void CudaStreams::wait(LaneId lane, int mark) {
  const Events& of_mark = events(mark);
  check(cudaStreamWaitEvent(stream(lane), capturing_ ? of_mark.inside : of_mark.timed, 0),
        "cudaStreamWaitEvent");
}

nanoseconds CudaStreams::reached(int mark) {
  constexpr std::chrono::seconds far{8};
  Base& base = bases_.at(device_of_mark_[static_cast<std::size_t>(mark)]);
  wait_for(events(mark).timed);
  const nanoseconds time = time_of(events(mark).timed, base);
  if (time - base.time > far) move_base(base, mark);
  return time;
}

/// Throws RunError when the device fails or takes longer than it may.
void CudaStreams::wait_for(cudaEvent_t event) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds short_while{20};
  const Clock::time_point begin = Clock::now();
  while (true) {
    const cudaError_t status = cudaEventQuery(event);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    cudaGetLastError();  // not being ready yet counts as an error
    const auto waited = Clock::now() - begin;
    const bool too_late = waited > options_.timeout;
    if (too_late) give_up();
    options_.watch(too_late);
    if (too_late) {
      throw RunError(
          fmt::format("the device is not done with it after {} s", options_.timeout.count()));
    }
    if (waited > short_while) std::this_thread::sleep_for(short_while);
  }
}

// ---- clocks ------------------------------------------------------------------------------------

/// One clock for all devices: all are idle when their bases are set, one right after the other. The
/// bases are reached before anything is measured from them: other lanes do not wait for them.
void CudaStreams::start_clocks() {
  wait_until_idle();
  for (std::size_t l = 0; l < streams_.size(); ++l) {
    if (bases_.contains(devices_[l])) continue;
    select(devices_[l]);
    Base& base = bases_[devices_[l]];
    base.event = new_event(cudaEventDefault);
    check(cudaEventRecord(base.event, streams_[l]), "cudaEventRecord");
  }
  wait_until_idle();
}

nanoseconds CudaStreams::time_of(cudaEvent_t event, const Base& base) {
  constexpr double ns_a_ms = 1e6;
  float ms = 0;
  check(cudaEventElapsedTime(&ms, base.event, event), "cudaEventElapsedTime");
  return base.time + nanoseconds(std::llround(static_cast<double>(ms) * ns_a_ms));
}

/// CUDA gives milliseconds as a float, so that times far from the base lose their digits: a late
/// mark becomes the new base, and its place gets the old one's event, which nobody waits for. The
/// events of graphs keep their places; there the device comes to rest for new bases.
void CudaStreams::move_base(Base& base, int mark) {
  if (!options_.graphs) {
    base.time = time_of(events(mark).timed, base);
    std::swap(base.event, events(mark).timed);
    return;
  }
  const std::map<int, Base> before = std::exchange(bases_, {});
  start_clocks();
  for (const auto& [device, old] : before) {
    bases_.at(device).time = time_of(bases_.at(device).event, old);
    cudaEventDestroy(old.event);
  }
}

// ---- graphs ------------------------------------------------------------------------------------

void CudaStreams::make_origin() {
  for (const int device : devices_) {
    select(device);
    joined_.push_back(new_event(cudaEventDisableTiming));
  }
  select(devices_.front());
  origin_ = new_stream();
  forked_ = new_event(cudaEventDisableTiming);
  for (int i = 0; i < pieces_noted; ++i) pieces_.push_back(new_event(cudaEventDisableTiming));
}

void CudaStreams::fork_lanes() {
  check(cudaEventRecord(forked_, origin_), "cudaEventRecord");
  for (const StreamHandle stream : streams_) {
    check(cudaStreamWaitEvent(stream, forked_, 0), "cudaStreamWaitEvent");
  }
}

void CudaStreams::join_lanes() {
  end_range();  // what is put may end within a task
  for (std::size_t l = 0; l < streams_.size(); ++l) {
    check(cudaEventRecord(joined_[l], streams_[l]), "cudaEventRecord");
    check(cudaStreamWaitEvent(origin_, joined_[l], 0), "cudaStreamWaitEvent");
  }
}

void CudaStreams::begin_capture() {
  check(cudaStreamBeginCapture(origin_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  capturing_ = true;
}

int CudaStreams::end_capture() {
  capturing_ = false;
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(origin_, &captured), "cudaStreamEndCapture");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&ready, captured, 0);
  cudaGraphDestroy(captured);
  check(status, "cudaGraphInstantiate");
  graphs_.push_back(ready);
  return static_cast<int>(graphs_.size()) - 1;
}

void CudaStreams::give_up_capture() noexcept {
  capturing_ = false;
  cudaGraph_t captured = nullptr;
  if (cudaStreamEndCapture(origin_, &captured) == cudaSuccess) cudaGraphDestroy(captured);
  cudaGetLastError();  // the failure that led here is the one to tell
}

void CudaStreams::launch_graph(int graph, int first, int last) {
  const bool has_name = order_ != nullptr && first >= 0;
  if (has_name) {
    nvtxRangePushA(fmt::format("CUDA graph {} to {}", label_at(first), label_at(last)).c_str());
  }
  const cudaError_t status = cudaGraphLaunch(graphs_[static_cast<std::size_t>(graph)], origin_);
  if (has_name) nvtxRangePop();
  check(status, "cudaGraphLaunch");
}

void CudaStreams::destroy_graph(int graph) noexcept {
  if (gave_up()) return;
  cudaGraphExecDestroy(std::exchange(graphs_[static_cast<std::size_t>(graph)], nullptr));
}

void CudaStreams::note_piece(int number) {
  const auto place = static_cast<std::size_t>(number % pieces_noted);
  check(cudaEventRecord(pieces_[place], origin_), "cudaEventRecord");
}

void CudaStreams::wait_for_piece(int number) {
  wait_for(pieces_[static_cast<std::size_t>(number % pieces_noted)]);
}

}  // namespace unlatch::exec::cuda
