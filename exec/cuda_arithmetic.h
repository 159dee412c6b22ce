// The arithmetic of the own CUDA kernels, one element or one row at a time; plain C++ as well, so
// that a machine without a device tests it. No includes that nvcc cannot take (fmt).
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define UNLATCH_HOST_DEVICE __host__ __device__
#else
#define UNLATCH_HOST_DEVICE
#endif

namespace unlatch::exec::cuda {

/// A NaN stays one, so that a diverged training shows.
UNLATCH_HOST_DEVICE inline float relu(float x) { return x < 0 ? 0.0F : x; }
UNLATCH_HOST_DEVICE inline float relu_gradient(float y, float g) { return y > 0 ? g : 0.0F; }

/// Of models::Optimizer, the constants of one step.
struct Step {
  float rate;
  float decay;
  float momentum;     ///< b; 0: plain SGD, without a velocity
  float of_velocity;  ///< 1 - s (1 - b)
  float of_gradient;  ///< s
};

/// One optimizer step on one weight; clears the gradient.
UNLATCH_HOST_DEVICE inline void step_weight(const Step& step, float& weight, float& gradient,
                                            float* velocity) {
  const float g = gradient + step.decay * weight;
  gradient = 0;
  if (velocity == nullptr) {
    weight -= step.rate * g;
    return;
  }
  *velocity = step.momentum * *velocity + g;
  weight -= step.rate * (step.of_velocity * *velocity + step.of_gradient * g);
}

/// What one row of logits adds to the loss of its micro-batch.
struct RowLoss {
  double loss = 0;
  std::int32_t correct = 0;
  std::int32_t valid = 0;  ///< 0: the label is no class
};

/// Softmax cross entropy of a row. `gradient` may be null; it becomes `share` times the gradient.
/// The largest logit is taken off first, so that no exponential overflows.
UNLATCH_HOST_DEVICE inline RowLoss row_loss(const float* row, int classes, std::int32_t label,
                                            double share, float* gradient) {
  if (label < 0 || label >= classes) return {};
  int best = 0;
  for (int c = 1; c < classes; ++c) {
    if (row[c] > row[best]) best = c;
  }
  const double largest = row[best];
  double sum = 0;
  for (int c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
  if (gradient != nullptr) {
    for (int c = 0; c < classes; ++c) {
      const double probability = std::exp(row[c] - largest) / sum;
      gradient[c] = static_cast<float>(share * (probability - (c == label ? 1 : 0)));
    }
  }
  return {std::log(sum) + largest - row[label], best == label ? 1 : 0, 1};
}

}  // namespace unlatch::exec::cuda
