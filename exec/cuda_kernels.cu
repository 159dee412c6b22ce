#include "exec/cuda_kernels.h"

#include "exec/cuda_each.cuh"

namespace unlatch::exec::cuda {
namespace {

template <class T>
struct Relu {
  const T* x;
  T* y;
  __device__ void operator()(std::size_t i) const { y[i] = T(relu(wide(x[i]))); }
};

template <class T>
struct ReluGradient {
  const T* y;
  const T* g;
  T* out;
  __device__ void operator()(std::size_t i) const {
    out[i] = T(relu_gradient(wide(y[i]), wide(g[i])));
  }
};

template <class T, class Sum>
struct Add {
  const T* x;
  Sum* y;
  __device__ void operator()(std::size_t i) const { y[i] = Sum(wide(y[i]) + wide(x[i])); }
};

template <class T>
struct Scale {
  float factor;
  const T* x;
  T* y;
  __device__ void operator()(std::size_t i) const { y[i] = T(factor * wide(x[i])); }
};

template <class T>
struct Convert {
  const float* x;
  T* y;
  __device__ void operator()(std::size_t i) const { y[i] = T(x[i]); }
};

template <class T>
struct AddBias {
  const float* bias;
  T* y;
  ChannelShape shape;
  __device__ void operator()(std::size_t i) const {
    y[i] = T(wide(y[i]) + bias[channel_of(shape, i)]);
  }
};

/// A block a channel: each thread its share, then pairs of shares until one is left.
template <class T>
__global__ void add_channel_sums(const T* g, float* sums, ChannelShape shape) {
  __shared__ float shares[block];
  const int channel = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  shares[thread] = channel_sum(shape, g, channel, thread, block);
  for (int half = block / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shares[thread] += shares[thread + half];
  }
  if (thread == 0) sums[channel] += shares[0];
}

template <class T>
struct CrossEntropy {
  const T* logits;
  const std::int32_t* labels;
  int classes;
  double share;
  T* gradient;
  RowLoss* of_rows;
  __device__ void operator()(std::size_t r) const {
    const std::size_t at = r * classes;
    of_rows[r] = row_loss(logits + at, classes, labels[r], share,
                          gradient == nullptr ? nullptr : gradient + at);
  }
};

/// One thread: a micro-batch has few rows, and the order of the sum must not change.
struct SumRows {
  const RowLoss* of_rows;
  int rows;
  RowLoss* total;
  __device__ void operator()(std::size_t) const {
    RowLoss sum;
    for (int r = 0; r < rows; ++r) {
      sum.loss += of_rows[r].loss;
      sum.correct += of_rows[r].correct;
      sum.valid += of_rows[r].valid;
    }
    *total = sum;
  }
};

}  // namespace

void launch_relu(StreamHandle stream, Precision precision, const void* x, void* y, std::size_t n) {
  with_type(precision, [=](auto t) { launch(stream, n, Relu<decltype(t)>{as(x, t), as(y, t)}); });
}

void launch_relu_gradient(StreamHandle stream, Precision precision, const void* y, const void* g,
                          void* out, std::size_t n) {
  with_type(precision, [=](auto t) {
    launch(stream, n, ReluGradient<decltype(t)>{as(y, t), as(g, t), as(out, t)});
  });
}

void launch_add(StreamHandle stream, Precision precision, const void* x, void* y, std::size_t n) {
  with_type(precision, [=](auto t) {
    launch(stream, n, Add<decltype(t), decltype(t)>{as(x, t), as(y, t)});
  });
}

void launch_accumulate(StreamHandle stream, Precision precision, const void* x, float* y,
                       std::size_t n) {
  with_type(precision, [=](auto t) { launch(stream, n, Add<decltype(t), float>{as(x, t), y}); });
}

void launch_scale(StreamHandle stream, Precision precision, float factor, const void* x, void* y,
                  std::size_t n) {
  with_type(precision, [=](auto t) {
    launch(stream, n, Scale<decltype(t)>{factor, as(x, t), as(y, t)});
  });
}

void launch_convert(StreamHandle stream, Precision precision, const float* x, void* y,
                    std::size_t n) {
  with_type(precision, [=](auto t) { launch(stream, n, Convert<decltype(t)>{x, as(y, t)}); });
}

void launch_add_bias(StreamHandle stream, Precision precision, const float* bias, void* y,
                     ChannelShape shape) {
  const std::size_t n = static_cast<std::size_t>(shape.samples) *
                        static_cast<std::size_t>(shape.channels) *
                        static_cast<std::size_t>(shape.plane);
  with_type(precision, [=](auto t) {
    launch(stream, n, AddBias<decltype(t)>{bias, as(y, t), shape});
  });
}

void launch_add_channel_sums(StreamHandle stream, Precision precision, const void* g, float* sums,
                             ChannelShape shape) {
  with_type(precision, [=](auto t) {
    start<add_channel_sums<decltype(t)>>(stream, static_cast<unsigned>(shape.channels), block,
                                         as(g, t), sums, shape);
  });
}

void launch_cross_entropy(StreamHandle stream, Precision precision, const void* logits,
                          const std::int32_t* labels, int rows, int classes, double share,
                          void* gradient, RowLoss* of_rows, RowLoss* total) {
  with_type(precision, [=](auto t) {
    launch(
        stream, static_cast<std::size_t>(rows),
        CrossEntropy<decltype(t)>{as(logits, t), labels, classes, share, as(gradient, t), of_rows});
  });
  launch(stream, 1, SumRows{of_rows, rows, total});
}

}  // namespace unlatch::exec::cuda
