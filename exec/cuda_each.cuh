// What own kernels are made of: a function of every element, in the number format of the run.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "exec/cuda_launch.cuh"

namespace unlatch::exec::cuda {

inline constexpr int block = 256;
inline constexpr std::size_t most_blocks = 4096;  ///< threads then go on in strides

inline unsigned blocks_for(std::size_t n) {
  const std::size_t wanted = (n + block - 1) / block;
  return static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
}

/// Calls f(i) once for every i < n.
template <class F>
__global__ void each(std::size_t n, F f) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    f(i);
  }
}

template <class F>
void launch(StreamHandle stream, std::size_t n, F f) {
  if (n == 0) return;
  start<each<F>>(stream, blocks_for(n), block, n, f);
}

/// Calls f with a number of the type that the precision stands for.
template <class F>
void with_type(Precision precision, F f) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return f(float{});
    case Precision::bf16:
      return f(__nv_bfloat16{});
    case Precision::fp16:
      return f(__half{});
  }
}

template <class T>
__device__ float wide(T x) {
  return static_cast<float>(x);
}

template <class T>
const T* as(const void* tensor, T) {
  return static_cast<const T*>(tensor);
}
template <class T>
T* as(void* tensor, T) {
  return static_cast<T*>(tensor);
}

}  // namespace unlatch::exec::cuda
