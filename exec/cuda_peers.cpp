#include "exec/cuda_peers.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "exec/cuda_check.h"
#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

void enable(int from, int to) {
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
  if (can == 0) return;
  check(cudaSetDevice(from), "cudaSetDevice");
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status != cudaErrorPeerAccessAlreadyEnabled) check(status, "cudaDeviceEnablePeerAccess");
  cudaGetLastError();  // being enabled already counts as an error
}

class DeviceArray {
 public:
  DeviceArray(int device, std::size_t bytes) {
    check(cudaSetDevice(device), "cudaSetDevice");
    const cudaError_t status = cudaMalloc(&memory_, bytes);
    if (status == cudaErrorMemoryAllocation) {
      throw RunError(fmt::format(
          "device {}: out of memory: {} bytes are needed to try a copy between devices; is another "
          "program using it?",
          device, bytes));
    }
    check(status, "cudaMalloc");
  }
  ~DeviceArray() { cudaFree(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

void try_copy(int from, int to) {
  std::vector<std::uint32_t> sent(1 << 16), arrived(sent.size());
  std::iota(sent.begin(), sent.end(), 1U);
  const std::size_t bytes = sent.size() * sizeof(sent[0]);
  const DeviceArray source(from, bytes), target(to, bytes);
  check(cudaMemcpy(source.get(), sent.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaMemcpyPeer(target.get(), to, source.get(), from, bytes), "cudaMemcpyPeer");
  check(cudaMemcpy(arrived.data(), target.get(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (arrived != sent) {
    throw RunError(
        fmt::format("a copy from device {} to device {} arrived damaged; --transport "
                    "nccl may find another way, or see the machine's IOMMU settings",
                    from, to));
  }
}

}  // namespace

void open_peers(std::span<const int> devices) {
  for (const auto visit : {enable, try_copy}) {
    for (const int from : devices) {
      for (const int to : devices) {
        if (from != to) visit(from, to);
      }
    }
  }
}

}  // namespace unlatch::exec::cuda
