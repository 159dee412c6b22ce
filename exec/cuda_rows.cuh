// Own kernels that work on rows: a block each, whose threads take shares of it.
#pragma once

#include "exec/cuda_each.cuh"
#include "exec/cuda_sequence_arithmetic.h"

namespace unlatch::exec::cuda {

/// A block a row: f.share() of each thread, then f.joined() of pairs until one is left, which
/// f.end() puts down.
template <class F>
__global__ void reduce_rows(F f) {
  __shared__ float shares[block];
  const int row = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  shares[thread] = f.share(row, thread);
  for (int half = block / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shares[thread] = f.joined(shares[thread], shares[thread + half]);
  }
  if (thread == 0) f.end(row, shares[0]);
}

template <class F>
void launch_rows(StreamHandle stream, int rows, F f) {
  start<reduce_rows<F>>(stream, static_cast<unsigned>(rows), block, f);
}

struct Sum {
  __device__ static float joined(float a, float b) { return a + b; }
};

template <class T>
__device__ const T* row_of(const T* values, const RowShape& shape, int row) {
  return values + static_cast<std::size_t>(row) * static_cast<std::size_t>(shape.size);
}

inline std::size_t elements(const RowShape& shape) {
  return static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.size);
}

}  // namespace unlatch::exec::cuda
