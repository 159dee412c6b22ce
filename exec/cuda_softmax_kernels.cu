#include "exec/cuda_rows.cuh"
#include "exec/cuda_sequence_kernels.h"

namespace unlatch::exec::cuda {
namespace {

template <class T>
struct LargestScores {
  const T* scores;
  RowShape shape;
  float* largest;
  __device__ float share(int row, int part) const {
    return largest_of(row_of(scores, shape, row), seen_in(shape, row), part, block);
  }
  __device__ static float joined(float a, float b) { return b <= a ? a : b; }
  __device__ void end(int row, float value) const { largest[row] = value; }
};

template <class T>
struct ExponentialSums : Sum {
  const T* scores;
  RowShape shape;
  const float* largest;
  float* sums;
  __device__ float share(int row, int part) const {
    float sum = 0;
    for (int s = part; s < seen_in(shape, row); s += block) {
      sum += std::exp(wide(row_of(scores, shape, row)[s]) - largest[row]);
    }
    return sum;
  }
  __device__ void end(int row, float sum) const { sums[row] = sum; }
};

template <class T>
struct Softmax {
  T* scores;
  RowShape shape;
  const float* largest;
  const float* sums;
  __device__ void operator()(std::size_t i) const {
    const int row = static_cast<int>(i / shape.size), s = static_cast<int>(i % shape.size);
    const bool seen = s < seen_in(shape, row);
    scores[i] = T(seen ? std::exp(wide(scores[i]) - largest[row]) / sums[row] : 0.0F);
  }
};

template <class T>
struct SoftmaxProducts : Sum {
  const T* p;
  const T* g;
  RowShape shape;
  float* products;
  __device__ float share(int row, int part) const {
    float sum = 0;
    for (int s = part; s < seen_in(shape, row); s += block) {
      sum += wide(row_of(p, shape, row)[s]) * wide(row_of(g, shape, row)[s]);
    }
    return sum;
  }
  __device__ void end(int row, float sum) const { products[row] = sum; }
};

template <class T>
struct SoftmaxGradient {
  const T* p;
  T* g;
  RowShape shape;
  const float* products;
  __device__ void operator()(std::size_t i) const {
    const int row = static_cast<int>(i / shape.size), s = static_cast<int>(i % shape.size);
    const bool seen = s < seen_in(shape, row);
    g[i] = T(seen ? wide(p[i]) * (wide(g[i]) - products[row]) : 0.0F);
  }
};

}  // namespace

void launch_causal_softmax(StreamHandle stream, Precision precision, void* scores, float* of_rows,
                           RowShape shape) {
  float* sums = of_rows + shape.rows;
  with_type(precision, [=](auto t) {
    using T = decltype(t);
    launch_rows(stream, shape.rows, LargestScores<T>{as(scores, t), shape, of_rows});
    launch_rows(stream, shape.rows, ExponentialSums<T>{{}, as(scores, t), shape, of_rows, sums});
    launch(stream, elements(shape), Softmax<T>{as(scores, t), shape, of_rows, sums});
  });
}

void launch_causal_softmax_gradient(StreamHandle stream, Precision precision, const void* p,
                                    void* g, float* of_rows, RowShape shape) {
  with_type(precision, [=](auto t) {
    using T = decltype(t);
    launch_rows(stream, shape.rows, SoftmaxProducts<T>{{}, as(p, t), as(g, t), shape, of_rows});
    launch(stream, elements(shape), SoftmaxGradient<T>{as(p, t), as(g, t), shape, of_rows});
  });
}

}  // namespace unlatch::exec::cuda
