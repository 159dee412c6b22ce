#include "models/parameter_tensors.h"

namespace unlatch::models {

std::vector<ParameterTensor> parameter_tensors(const Model& model, const StageRange& range) {
  const std::vector<SampleShape> shapes = model.shapes();
  std::vector<ParameterTensor> tensors;
  std::size_t first = 0;
  for (int j = range.first; j <= range.last; ++j) {
    const auto at = static_cast<std::size_t>(j);
    for (const Parameter& parameter : parameters(model.layers[at], shapes[at])) {
      const auto elements = static_cast<std::size_t>(parameter.elements());
      tensors.push_back({first, elements, parameter.shape.size() > 1});
      first += elements;
    }
  }
  return tensors;
}

}  // namespace unlatch::models
