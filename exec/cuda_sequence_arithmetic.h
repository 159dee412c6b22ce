// The arithmetic of the own kernels for transformers, as cuda_arithmetic.h has the others': one
// element, or one thread's share of a row, at a time.
#pragma once

#include "exec/cuda_arithmetic.h"

namespace unlatch::exec::cuda {

/// Rows of numbers that are worked on one by one: [rows, size], dense.
struct RowShape {
  std::int32_t rows;
  std::int32_t size;
};

// ---- embedding ---------------------------------------------------------------------------------

/// Tables of `vocabulary` and then `positions` rows of `width`; `rows` tokens of all samples.
struct EmbeddingShape {
  std::int32_t rows;
  std::int32_t positions;
  std::int32_t vocabulary;
  std::int32_t width;
};

/// Element i of [rows, width]; no number for a token outside the vocabulary.
template <class T>
UNLATCH_HOST_DEVICE float embedded(const EmbeddingShape& shape, const T* tokens,
                                   const float* tables, std::size_t i) {
  const std::size_t width = static_cast<std::size_t>(shape.width);
  const std::size_t row = i / width, column = i % width;
  const float token = static_cast<float>(tokens[row]);
  if (!(token >= 0 && token < static_cast<float>(shape.vocabulary))) {
    return NAN;
  }
  const std::size_t position =
      static_cast<std::size_t>(shape.vocabulary) + row % static_cast<std::size_t>(shape.positions);
  return tables[static_cast<std::size_t>(token) * width + column] +
         tables[position * width + column];
}

/// What all tokens add to element i of the gradient of both tables, in their order.
template <class T>
UNLATCH_HOST_DEVICE float table_gradient(const EmbeddingShape& shape, const T* tokens, const T* g,
                                         std::size_t i) {
  const std::size_t width = static_cast<std::size_t>(shape.width);
  const std::int32_t entry = static_cast<std::int32_t>(i / width);
  const bool of_token = entry < shape.vocabulary;
  const std::int32_t first = of_token ? 0 : entry - shape.vocabulary;
  const std::int32_t step = of_token ? 1 : shape.positions;
  float sum = 0;
  for (std::int32_t r = first; r < shape.rows; r += step) {
    if (of_token && static_cast<float>(tokens[r]) != static_cast<float>(entry)) continue;
    sum += static_cast<float>(g[static_cast<std::size_t>(r) * width + i % width]);
  }
  return sum;
}

// ---- GELU --------------------------------------------------------------------------------------

UNLATCH_HOST_DEVICE inline float normal_distribution(float x) {
  return 0.5F * (1 + std::erf(x * 0.70710678F));
}
UNLATCH_HOST_DEVICE inline float gelu(float x) { return x * normal_distribution(x); }
UNLATCH_HOST_DEVICE inline float gelu_gradient(float x, float g) {
  return g * (normal_distribution(x) + x * 0.39894228F * std::exp(-0.5F * x * x));
}

// ---- layer norm --------------------------------------------------------------------------------

/// Mean of each row and 1 / sqrt(variance + epsilon).
struct RowNorms {
  const float* mean;
  const float* inverse;
};

UNLATCH_HOST_DEVICE inline float normalised(const RowNorms& norms, float x, std::size_t row) {
  return (x - norms.mean[row]) * norms.inverse[row];
}

/// Of each row, the means of gamma g and of gamma g times the normalised input.
struct RowGradients {
  const float* mean;
  const float* product;
};

UNLATCH_HOST_DEVICE inline float norm_gradient(const RowNorms& norms, const RowGradients& means,
                                               float x, float gamma_g, std::size_t row) {
  return norms.inverse[row] *
         (gamma_g - means.mean[row] - normalised(norms, x, row) * means.product[row]);
}

// ---- causal softmax ----------------------------------------------------------------------------

/// Rows of scores, `size` of them a head: row r is of token r % size, which sees so many.
UNLATCH_HOST_DEVICE inline std::int32_t seen_in(const RowShape& shape, std::int32_t row) {
  return row % shape.size + 1;
}

/// The largest of the values with numbers part, part + parts, .. below n; nothing: -infinity.
template <class T>
UNLATCH_HOST_DEVICE float largest_of(const T* values, int n, int part, int parts) {
  float largest = -INFINITY;
  for (int i = part; i < n; i += parts) {
    const float value = static_cast<float>(values[i]);
    if (!(value <= largest)) largest = value;  // a NaN stays one
  }
  return largest;
}

}  // namespace unlatch::exec::cuda
