// start(): the one place where an own kernel is launched.
#pragma once

#include "exec/cuda_kernels.h"

namespace unlatch::exec::cuda {

/// Enqueues the kernel, a __global__ function, and returns.
template <auto kernel, class... A>
void start(StreamHandle stream, unsigned blocks, unsigned threads, A... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
}

}  // namespace unlatch::exec::cuda
