#include "exec/cuda_square_sum.h"

#include "exec/cuda_each.cuh"

namespace unlatch::exec::cuda {
namespace {

/// Each thread of each block its share, then pairs of a block's shares until one is left.
template <class T>
__global__ void sum_squares(const T* x, std::size_t n, double* sums) {
  __shared__ double of_threads[block];
  const int thread = static_cast<int>(threadIdx.x);
  of_threads[thread] = square_sum(x, n, static_cast<int>(blockIdx.x) * block + thread,
                                  static_cast<int>(gridDim.x) * block);
  for (int half = block / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) of_threads[thread] += of_threads[thread + half];
  }
  if (thread == 0) sums[blockIdx.x] = of_threads[0];
}

/// One thread: the order of the sum must not change.
struct EndSquares {
  const double* sums;
  double factor;
  double more;
  double* sum;
  __device__ void operator()(std::size_t) const {
    double all = 0;
    for (int s = 0; s < square_shares; ++s) all += sums[s];
    *sum = more + factor * all;
  }
};

}  // namespace

void launch_square_sum(StreamHandle stream, Precision precision, const void* x, std::size_t n,
                       double factor, double more, double* sums, double* sum) {
  with_type(precision, [=](auto t) {
    start<sum_squares<decltype(t)>>(stream, square_shares, block, as(x, t), n, sums);
  });
  launch(stream, 1, EndSquares{sums, factor, more, sum});
}

}  // namespace unlatch::exec::cuda
