#include "exec/cuda_feed.h"

#include <algorithm>
#include <cstring>

namespace unlatch::exec::cuda {

CudaFeed::~CudaFeed() {
  for (const Staged& staged : staged_) cudaFreeHost(staged.memory);
}

Tensor CudaFeed::copied(const Tensor& values) {
  Staged staged = staging(values.bytes());
  std::memcpy(staged.memory, values.data<std::byte>(), values.bytes());
  Tensor tensor = device_.take(values.bytes());
  check(cudaMemcpyAsync(device_.write<std::byte>(tensor), staged.memory, values.bytes(),
                        cudaMemcpyHostToDevice, device_.stream()),
        "cudaMemcpyAsync");
  staged.task = *device_.order().current();
  staged_.push_back(staged);
  return tensor;
}

CudaFeed::Staged CudaFeed::staging(std::size_t bytes) {
  const auto fits = [&](const Staged& staged) {
    return staged.bytes >= bytes && device_.order().is_over(staged.task);
  };
  auto found = std::ranges::find_if(staged_, fits);
  if (found == staged_.end() && staged_.size() >= most_staged) {
    device_.order().wait_until_over(staged_.front().task);
    found = std::ranges::find_if(staged_, fits);
  }
  if (found != staged_.end()) {
    const Staged staged = *found;
    staged_.erase(found);
    return staged;
  }
  Staged fresh{{}, nullptr, bytes};
  check(cudaMallocHost(&fresh.memory, bytes), "cudaMallocHost");
  return fresh;
}

}  // namespace unlatch::exec::cuda
