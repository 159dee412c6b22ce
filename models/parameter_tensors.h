// Where in a stage's flat weights each tensor lies, for optimizers that look at whole tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "models/model.h"
#include "models/partition.h"

namespace unlatch::models {

struct ParameterTensor {
  std::size_t first = 0;
  std::size_t elements = 0;
  /// lars, lamb: has a trust ratio and decays.
  bool adapted = true;
};

/// Of consecutive layers, in the order of their flat weights. Biases and the parameters of norms,
/// which have one dimension, are not adapted.
std::vector<ParameterTensor> parameter_tensors(const Model& model, const StageRange& range);

}  // namespace unlatch::models
