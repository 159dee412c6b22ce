// A second, plain implementation of every layer: naive loops in double, for comparison.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "models/layer.h"

namespace unlatch::testing {

using Numbers = std::vector<double>;

/// Outputs [samples, channels, height, width], and how to go back from their gradient: adds to the
/// flat weight gradient and returns the gradient of the input.
struct Reference {
  Numbers output;
  std::function<Numbers(const Numbers& gradient, double* weight_gradient)> backward;
};

/// Training mode of one layer (batch norm uses the batch's own statistics).
Reference reference(const models::Layer& layer, const models::SampleShape& shape, int samples,
                    const double* weights, const Numbers& input);
/// The same of layers in a row.
Reference reference(std::span<const models::Layer> layers, models::SampleShape shape, int samples,
                    const double* weights, const Numbers& input);

}  // namespace unlatch::testing
