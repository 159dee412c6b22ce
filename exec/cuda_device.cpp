#include "exec/cuda_device.h"

#include <nvtx3/nvToolsExt.h>

#include <cmath>
#include <utility>

#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

bool computes(Engine engine) { return engine == Engine::compute || engine == Engine::recompute; }

}  // namespace

Device::Device(const TaskGraph& graph, const DeviceOptions& options)
    : graph_(graph),
      options_(options),
      lanes_(graph.lanes().size()),
      device_of_mark_(static_cast<std::size_t>(StreamOrder::marks(options.window)), 0),
      order_(graph, *this, options.window),
      memory_(graph, order_, *this, options.memory_limit) {
  enable_peers();
  make_lanes();
}

Device::~Device() {
  wait_until_idle();  // after a failure work may still be on its way
  for (const Lane& lane : lanes_) {
    if (lane.dnn != nullptr) cudnnDestroy(lane.dnn);
    if (lane.blas != nullptr) cublasDestroy(lane.blas);
    if (lane.stream != nullptr) cudaStreamDestroy(lane.stream);
  }
  for (const auto& [device, events] : events_) {
    for (cudaEvent_t event : events) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  for (const auto& [device, base] : bases_) cudaEventDestroy(base.event);
}

// ---- devices -----------------------------------------------------------------------------------

int Device::device_of(Rank rank) const {
  const std::vector<int>& numbers = options_.numbers;
  return numbers.size() == 1 ? numbers.front() : numbers[static_cast<std::size_t>(rank.value)];
}

Rank Device::rank_at_hand() const { return graph_.rank(graph_.task(*order_.current())); }

void Device::select(int device) {
  if (std::exchange(selected_, device) == device) return;
  check(cudaSetDevice(device), "cudaSetDevice");
}

void Device::wait_until_idle() noexcept {
  for (const int device : options_.numbers) {
    cudaSetDevice(device);
    cudaDeviceSynchronize();
  }
  selected_ = -1;
}

/// Copies between devices then go straight from one to the other; elsewhere CUDA takes them through
/// the host.
void Device::enable_peers() const {
  for (const int one_device : options_.numbers) {
    for (const int other : options_.numbers) {
      int can = 0;
      if (one_device == other) continue;
      check(cudaDeviceCanAccessPeer(&can, one_device, other), "cudaDeviceCanAccessPeer");
      if (can == 0) continue;
      check(cudaSetDevice(one_device), "cudaSetDevice");
      const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
      if (status != cudaErrorPeerAccessAlreadyEnabled) check(status, "cudaDeviceEnablePeerAccess");
      cudaGetLastError();  // being enabled already counts as an error
    }
  }
}

void Device::make_lanes() {
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    lane.device = device_of(graph_.lanes()[l].rank);
    select(lane.device);
    check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    if (!computes(graph_.lanes()[l].engine)) continue;
    check(cudnnCreate(&lane.dnn), "cudnnCreate");
    check(cudnnSetStream(lane.dnn, lane.stream), "cudnnSetStream");
    check(cublasCreate(&lane.blas), "cublasCreate");
    check(cublasSetStream(lane.blas, lane.stream), "cublasSetStream");
    check(cublasSetMathMode(lane.blas,
                            options_.tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
          "cublasSetMathMode");
    any_dnn_ = lane.dnn;
  }
}

// ---- marks -------------------------------------------------------------------------------------

cudaEvent_t& Device::event(int mark) {
  const int device = device_of_mark_[static_cast<std::size_t>(mark)];
  std::vector<cudaEvent_t>& events = events_[device];
  if (events.empty()) events.resize(device_of_mark_.size(), nullptr);
  cudaEvent_t& event = events[static_cast<std::size_t>(mark)];
  if (event == nullptr) {
    select(device);
    check(cudaEventCreate(&event), "cudaEventCreate");
  }
  return event;
}

/// One clock for all devices: all are idle when their bases are set, one right after the other.
void Device::start_clocks() {
  wait_until_idle();
  for (const Lane& lane : lanes_) {
    if (bases_.contains(lane.device)) continue;
    select(lane.device);
    Base& base = bases_[lane.device];
    check(cudaEventCreate(&base.event), "cudaEventCreate");
    check(cudaEventRecord(base.event, lane.stream), "cudaEventRecord");
  }
}

/// Marks a task's stretch of the host's time for profilers, which show its kernels under its name.
void Device::name_range(bool starts) {
  if (!starts) {
    nvtxRangePop();
    return;
  }
  const Task& task = graph_.task(*order_.current());
  nvtxRangePushA(label(task).c_str());
}

void Device::record(int mark, LaneId lane) {
  if (bases_.empty()) start_clocks();
  const bool starts = mark % 2 == 0;
  name_range(starts);
  if (!starts)
    check(cudaGetLastError(), "kernel launch");  // launches tell their failures only here
  const Lane& on = lanes_[lane.value];
  device_of_mark_[static_cast<std::size_t>(mark)] = on.device;
  cudaEvent_t& mark_event = event(mark);
  select(on.device);
  check(cudaEventRecord(mark_event, on.stream), "cudaEventRecord");
}

void Device::wait(LaneId lane, int mark) {
  check(cudaStreamWaitEvent(lanes_[lane.value].stream, event(mark), 0), "cudaStreamWaitEvent");
}

/// CUDA gives milliseconds as a float, so that times far from the base lose their digits: a late
/// mark becomes the new base, and its place gets the old one's event, which nobody waits for.
nanoseconds Device::reached(int mark) {
  constexpr float far_ms = 8000;
  constexpr double ns_a_ms = 1e6;
  Base& base = bases_.at(device_of_mark_[static_cast<std::size_t>(mark)]);
  check(cudaEventSynchronize(event(mark)), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, base.event, event(mark)), "cudaEventElapsedTime");
  const nanoseconds time = base.time + nanoseconds(std::llround(static_cast<double>(ms) * ns_a_ms));
  if (ms > far_ms) {
    std::swap(base.event, event(mark));
    base.time = time;
  }
  return time;
}

// ---- memory ------------------------------------------------------------------------------------

std::byte* Device::allocate(Rank rank, std::size_t bytes) {
  select(device_of(rank));  // that of the task at hand, if there is one
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the pool says what was asked for
    return nullptr;
  }
  check(status, "cudaMalloc");
  return static_cast<std::byte*>(memory);
}

void Device::release(Rank, std::byte* memory) noexcept { cudaFree(memory); }

Tensor Device::take(std::size_t bytes) { return memory_.take(rank_at_hand(), bytes); }

Tensor Device::brought(Tensor tensor) {
  if (tensor.empty() || memory_.device_of(tensor) == device_of(rank_at_hand())) return tensor;
  return copy_of(tensor);
}

Tensor Device::copy_of(const Tensor& tensor) {
  Tensor copy = take(tensor.bytes());
  check(cudaMemcpyAsync(write<std::byte>(copy), read<std::byte>(tensor), tensor.bytes(),
                        cudaMemcpyDefault, stream()),  // an address tells its device
        "cudaMemcpyAsync");
  return copy;
}

Tensor Device::upload(Rank rank, std::span<const float> values) {
  Tensor tensor = memory_.take(rank, values.size_bytes());
  check(
      cudaMemcpy(tensor.data<float>(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
      "cudaMemcpy");
  return tensor;
}

std::vector<float> Device::download(const Tensor& tensor) const {
  std::vector<float> values(tensor.bytes() / sizeof(float));
  check(cudaMemcpy(values.data(), tensor.data<float>(), tensor.bytes(), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return values;
}

}  // namespace unlatch::exec::cuda
