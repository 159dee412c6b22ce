// Sizes of a layer's tensors against what a machine's libraries count in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/model.h"

namespace unlatch::models {

/// Of a tensor: oneDNN's and cuDNN's kernels find their way about it in 32 bits.
inline constexpr std::int64_t most_numbers = 2'147'483'647;

/// Throws Error, naming the layer, for an input of more numbers.
void require_countable_input(const Layer& layer, const SampleShape& input);
/// The same for what else it has of one sample, the weights of a convolution, and for windows that
/// take longer than anyone waits. What is inside a residual is not looked at.
void require_countable(const Layer& layer, const SampleShape& input, const SampleShape& output);

/// Numbers of the largest tensor that any layer of the model has of one sample.
struct LargestTensor {
  std::string layer;
  std::int64_t numbers = 0;
};
LargestTensor largest_tensor(const Model& model);

/// Name of a batch norm that sees one value a channel in so many samples of the model, if there is
/// one: what it hands on is its beta, and no gradient comes through it.
std::optional<std::string> one_valued_norm(const Model& model, int samples);

}  // namespace unlatch::models
