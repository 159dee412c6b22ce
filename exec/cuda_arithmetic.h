// The arithmetic of the own CUDA kernels, one element or one row at a time; plain C++ as well, so
// that a machine without a device tests it. No includes that nvcc cannot take (fmt).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "models/host_device.h"

namespace unlatch::exec::cuda {

/// A NaN stays one, so that a diverged training shows.
UNLATCH_HOST_DEVICE inline float relu(float x) { return x < 0 ? 0.0F : x; }
UNLATCH_HOST_DEVICE inline float relu_gradient(float y, float g) { return y > 0 ? g : 0.0F; }

/// What the optimizer of a stage knows of its gradient where the loss is scaled.
struct GradientCheck {
  std::int32_t not_finite = 0;  ///< 1: the step at hand is left out
  std::int32_t left_out = 0;    ///< steps so far
};

/// Once all weights of a stage have had their step.
UNLATCH_HOST_DEVICE inline void end_step(GradientCheck& check) {
  check.left_out += check.not_finite;
  check.not_finite = 0;
}

/// Tensors [samples, channels, plane], dense.
struct ChannelShape {
  std::int32_t samples;
  std::int32_t channels;
  std::int32_t plane;
};

UNLATCH_HOST_DEVICE inline std::size_t channel_of(const ChannelShape& shape, std::size_t element) {
  return element / static_cast<std::size_t>(shape.plane) % static_cast<std::size_t>(shape.channels);
}

/// One of `parts` shares of the sum of a channel, whose elements go to the shares in turn.
template <class T>
UNLATCH_HOST_DEVICE float channel_sum(const ChannelShape& shape, const T* values, int channel,
                                      int part, int parts) {
  float sum = 0;
  const std::size_t plane = static_cast<std::size_t>(shape.plane);
  const std::size_t elements = static_cast<std::size_t>(shape.samples) * plane;
  for (std::size_t i = static_cast<std::size_t>(part); i < elements;
       i += static_cast<std::size_t>(parts)) {
    const std::size_t row = i / plane * static_cast<std::size_t>(shape.channels);
    sum +=
        static_cast<float>(values[(row + static_cast<std::size_t>(channel)) * plane + i % plane]);
  }
  return sum;
}

/// What one row of logits adds to the loss of its micro-batch.
struct RowLoss {
  double loss = 0;
  std::int32_t correct = 0;
  std::int32_t valid = 0;  ///< 0: the label is no class
};

/// Softmax cross entropy of a row. `gradient` may be null; it becomes `share` times the gradient.
/// The largest logit is taken off first, so that no exponential overflows.
template <class T>
UNLATCH_HOST_DEVICE RowLoss row_loss(const T* row, int classes, std::int32_t label, double share,
                                     std::type_identity_t<T>* gradient) {
  if (label < 0 || label >= classes) return {};
  const auto logit = [row](int c) { return static_cast<double>(static_cast<float>(row[c])); };
  int best = 0;
  for (int c = 1; c < classes; ++c) {
    if (logit(c) > logit(best)) best = c;
  }
  const double largest = logit(best);
  double sum = 0;
  for (int c = 0; c < classes; ++c) sum += std::exp(logit(c) - largest);
  if (gradient != nullptr) {
    for (int c = 0; c < classes; ++c) {
      const double probability = std::exp(logit(c) - largest) / sum;
      gradient[c] =
          static_cast<T>(static_cast<float>(share * (probability - (c == label ? 1 : 0))));
    }
  }
  return {std::log(sum) + largest - logit(label), best == label ? 1 : 0, 1};
}

/// The constants of a synthesiser: a row of numbers, one for all samples or one a class.
struct ConstantRows {
  const std::int32_t* labels;  ///< by sample; null: one row for all
  std::int64_t classes;
  std::int64_t samples;
  std::int64_t row;  ///< numbers of one sample, or token
};

/// First constant of a sample. A label that is no class takes the first row: the loss of the last
/// stage refuses it.
UNLATCH_HOST_DEVICE inline std::int64_t first_constant(const ConstantRows& rows,
                                                       std::int64_t sample) {
  const std::int64_t label = rows.labels == nullptr ? 0 : rows.labels[sample];
  return label < 0 || label >= rows.classes ? 0 : label * rows.row;
}

/// The constant of an element of [samples, row].
UNLATCH_HOST_DEVICE inline std::size_t constant_of(const ConstantRows& rows, std::size_t element) {
  const auto at = static_cast<std::int64_t>(element);
  return static_cast<std::size_t>(first_constant(rows, at / rows.row) + at % rows.row);
}

/// Steps the constants of one column down the slopes of all samples, in their order.
template <class T>
UNLATCH_HOST_DEVICE void step_constants(const ConstantRows& rows, const T* slope,
                                        std::size_t column, double rate, float* constants) {
  const auto at = static_cast<std::int64_t>(column);
  for (std::int64_t n = 0; n < rows.samples; ++n) {
    const double of_one = static_cast<float>(slope[n * rows.row + at]);
    constants[first_constant(rows, n) + at] -= static_cast<float>(rate * of_one);
  }
}

/// One of `parts` shares of the sum of the squares, whose elements go to the shares in turn.
template <class T>
UNLATCH_HOST_DEVICE double square_sum(const T* values, std::size_t n, int part, int parts) {
  double sum = 0;
  for (std::size_t i = static_cast<std::size_t>(part); i < n;
       i += static_cast<std::size_t>(parts)) {
    const double value = static_cast<float>(values[i]);
    sum += value * value;
  }
  return sum;
}

}  // namespace unlatch::exec::cuda
