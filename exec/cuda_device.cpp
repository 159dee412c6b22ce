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
      events_(static_cast<std::size_t>(StreamOrder::marks(options.window)), nullptr),
      order_(graph, *this, options.window),
      memory_(graph, order_, *this, options.memory_limit) {
  check(cudaSetDevice(options.number), "cudaSetDevice");
  make_lanes();
  check(cudaEventCreate(&base_), "cudaEventCreate");
}

Device::~Device() {
  cudaDeviceSynchronize();  // after a failure work may still be on its way
  for (const Lane& lane : lanes_) {
    if (lane.dnn != nullptr) cudnnDestroy(lane.dnn);
    if (lane.blas != nullptr) cublasDestroy(lane.blas);
    if (lane.stream != nullptr) cudaStreamDestroy(lane.stream);
  }
  for (cudaEvent_t event : events_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (base_ != nullptr) cudaEventDestroy(base_);
}

void Device::make_lanes() {
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
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
  cudaEvent_t& event = events_[static_cast<std::size_t>(mark)];
  if (event == nullptr) check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
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
  name_range(/*starts=*/mark % 2 == 0);
  if (!std::exchange(started_, true)) {
    check(cudaEventRecord(base_, lanes_[lane.value].stream), "cudaEventRecord");
  }
  check(cudaEventRecord(event(mark), lanes_[lane.value].stream), "cudaEventRecord");
}

void Device::wait(LaneId lane, int mark) {
  check(cudaStreamWaitEvent(lanes_[lane.value].stream, event(mark), 0), "cudaStreamWaitEvent");
}

/// CUDA gives milliseconds as a float, so that times far from the base lose their digits: a late
/// mark becomes the new base, and its place gets the old one's event, which nobody waits for.
nanoseconds Device::reached(int mark) {
  constexpr float far_ms = 8000;
  constexpr double ns_a_ms = 1e6;
  check(cudaEventSynchronize(event(mark)), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, base_, event(mark)), "cudaEventElapsedTime");
  const nanoseconds time =
      base_time_ + nanoseconds(std::llround(static_cast<double>(ms) * ns_a_ms));
  if (ms > far_ms) {
    std::swap(base_, event(mark));
    base_time_ = time;
  }
  return time;
}

// ---- memory ------------------------------------------------------------------------------------

std::byte* Device::allocate(Rank, std::size_t bytes) {
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

Tensor Device::take(std::size_t bytes) {
  return memory_.take(graph_.rank(graph_.task(*order_.current())), bytes);
}

Tensor Device::copy_of(const Tensor& tensor) {
  Tensor copy = take(tensor.bytes());
  check(cudaMemcpyAsync(write<std::byte>(copy), read<std::byte>(tensor), tensor.bytes(),
                        cudaMemcpyDeviceToDevice, stream()),
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
