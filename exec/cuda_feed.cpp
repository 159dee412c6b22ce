#include "exec/cuda_feed.h"

#include <cstring>

namespace unlatch::exec::cuda {

CudaFeed::~CudaFeed() {
  if (gave_up()) return;
  for (const Staged& staged : staged_) cudaFreeHost(staged.memory);
}

Tensor CudaFeed::input(MicroBatch i) {
  const Tensor floats = copied(host_.input(i));
  const Precision precision = device_.settings().precision;
  if (is_float32(precision)) return floats;
  const std::size_t n = floats.bytes() / sizeof(float);
  Tensor result = device_.take(n * bytes_of(precision));
  device_.launch(launch_convert, precision, device_.read(floats), device_.write<void>(result), n);
  return result;
}

Tensor CudaFeed::copied(const Tensor& values) {
  Staged& staged = staged_[next_];
  next_ = (next_ + 1) % staged_.size();
  if (staged.task.value >= 0 && staged.task != device_.order().current()) {
    device_.order().wait_until_over(staged.task);
  }
  if (staged.bytes < values.bytes()) {
    cudaFreeHost(staged.memory);
    staged = {};
    check(cudaMallocHost(&staged.memory, values.bytes()), "cudaMallocHost");
    staged.bytes = values.bytes();
  }
  std::memcpy(staged.memory, values.data<std::byte>(), values.bytes());
  staged.task = *device_.order().current();
  Tensor tensor = device_.take(values.bytes());
  device_.call("cudaMemcpyAsync", cudaMemcpyAsync, device_.write<void>(tensor), staged.memory,
               values.bytes(), cudaMemcpyHostToDevice, device_.stream());
  return tensor;
}

}  // namespace unlatch::exec::cuda
