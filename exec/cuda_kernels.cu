#include "exec/cuda_kernels.h"

namespace unlatch::exec::cuda {
namespace {

constexpr int block = 256;
constexpr std::size_t most_blocks = 4096;  ///< threads then go on in strides

unsigned blocks_for(std::size_t n) {
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
  each<<<blocks_for(n), block, 0, stream>>>(n, f);
}

struct Relu {
  const float* x;
  float* y;
  __device__ void operator()(std::size_t i) const { y[i] = relu(x[i]); }
};

struct ReluGradient {
  const float* y;
  const float* g;
  float* out;
  __device__ void operator()(std::size_t i) const { out[i] = relu_gradient(y[i], g[i]); }
};

struct Add {
  const float* x;
  float* y;
  __device__ void operator()(std::size_t i) const { y[i] += x[i]; }
};

struct Scale {
  float factor;
  const float* x;
  float* y;
  __device__ void operator()(std::size_t i) const { y[i] = factor * x[i]; }
};

struct FillRows {
  const float* bias;
  float* y;
  std::size_t columns;
  __device__ void operator()(std::size_t i) const { y[i] = bias[i % columns]; }
};

struct AddColumns {
  const float* g;
  float* sums;
  std::size_t rows, columns;
  __device__ void operator()(std::size_t c) const {
    float sum = sums[c];
    for (std::size_t r = 0; r < rows; ++r) sum += g[r * columns + c];
    sums[c] = sum;
  }
};

struct Optimize {
  Step step;
  float* weights;
  float* gradient;
  float* velocity;
  __device__ void operator()(std::size_t i) const {
    step_weight(step, weights[i], gradient[i], velocity == nullptr ? nullptr : velocity + i);
  }
};

struct Coast {
  float factor;
  const float* velocity;
  float* weights;
  __device__ void operator()(std::size_t i) const { weights[i] -= factor * velocity[i]; }
};

struct CrossEntropy {
  const float* logits;
  const std::int32_t* labels;
  int classes;
  double share;
  float* gradient;
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

void launch_relu(StreamHandle stream, const float* x, float* y, std::size_t n) {
  launch(stream, n, Relu{x, y});
}

void launch_relu_gradient(StreamHandle stream, const float* y, const float* g, float* out,
                          std::size_t n) {
  launch(stream, n, ReluGradient{y, g, out});
}

void launch_add(StreamHandle stream, const float* x, float* y, std::size_t n) {
  launch(stream, n, Add{x, y});
}

void launch_scale(StreamHandle stream, float factor, const float* x, float* y, std::size_t n) {
  launch(stream, n, Scale{factor, x, y});
}

void launch_fill_rows(StreamHandle stream, const float* bias, float* y, std::size_t rows,
                      std::size_t columns) {
  launch(stream, rows * columns, FillRows{bias, y, columns});
}

void launch_add_columns(StreamHandle stream, const float* g, float* sums, std::size_t rows,
                        std::size_t columns) {
  launch(stream, columns, AddColumns{g, sums, rows, columns});
}

void launch_optimizer(StreamHandle stream, const Step& step, float* weights, float* gradient,
                      float* velocity, std::size_t n) {
  launch(stream, n, Optimize{step, weights, gradient, velocity});
}

void launch_coast(StreamHandle stream, float factor, const float* velocity, float* weights,
                  std::size_t n) {
  launch(stream, n, Coast{factor, velocity, weights});
}

void launch_cross_entropy(StreamHandle stream, const float* logits, const std::int32_t* labels,
                          int rows, int classes, double share, float* gradient, RowLoss* of_rows,
                          RowLoss* total) {
  launch(stream, static_cast<std::size_t>(rows),
         CrossEntropy{logits, labels, classes, share, gradient, of_rows});
  launch(stream, 1, SumRows{of_rows, rows, total});
}

}  // namespace unlatch::exec::cuda
