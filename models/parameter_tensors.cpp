#include "models/parameter_tensors.h"

namespace unlatch::models {

std::vector<ParameterTensor> parameter_tensors(const Model& model, const StageRange& range) {
  const std::vector<SampleShape> shapes = model.shapes();
  std::vector<ParameterTensor> tensors;
  std::size_t first = 0;
  auto at = static_cast<std::size_t>(range.first);
  for (const Layer& layer : model.layers_of(range)) {
    for (const Parameter& parameter : parameters(layer, shapes[at++])) {
      const auto elements = static_cast<std::size_t>(parameter.elements());
      tensors.push_back({first, elements, parameter.shape.size() > 1});
      first += elements;
    }
  }
  return tensors;
}

}  // namespace unlatch::models
