#include "tests/bench/cuda_busy.h"

namespace unlatch::bench {
namespace {

__global__ void busy(long long clocks) {
  const long long start = clock64();
  while (clock64() - start < clocks) {
  }
}

}  // namespace

void launch_busy(exec::cuda::StreamHandle stream, long long clocks) {
  busy<<<1, 1, 0, stream>>>(clocks);
}

}  // namespace unlatch::bench
