#include "models/layer_facts.h"

#include "models/tied_head.h"

namespace unlatch::models {
namespace {

constexpr double float_bytes = sizeof(float);

/// What layer j's tape adds to that of the layer behind it.
double shared_tape(const Model& model, const std::vector<SampleShape>& shapes, std::size_t j) {
  if (j + 1 == model.layers.size()) return 0;
  const std::span<const Layer> both(&model.layers[j], 2);
  const std::int64_t apart = tape_bytes(both[0], shapes[j]) + tape_bytes(both[1], shapes[j + 1]);
  return static_cast<double>(apart - tape_bytes(both, shapes[j]));
}

}  // namespace

/// Convolutions and matrices do the same work for either gradient, and F, I and W each read two of
/// input, weights and output, or their gradients, and write the third.
ModelFacts facts_of(const Model& model, double element_bytes) {
  const std::vector<SampleShape> shapes = model.shapes();
  const auto activation = [&](double as_floats) { return as_floats * element_bytes / float_bytes; };
  const auto elements = [&](std::size_t j) { return static_cast<double>(shapes[j].elements()); };
  ModelFacts facts{.name = model.name, .input_bytes = elements(0) * element_bytes, .layers = {}};
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    const Layer layer = untied(model.layers[j]);
    const std::int64_t parameters = parameter_count(layer, shapes[j]);
    const auto back = static_cast<double>(backward_flops(layer, shapes[j]));
    const double moved = static_cast<double>(moved_elements(layer, shapes[j])) * element_bytes;
    facts.layers.push_back(
        {.name = layer.name,
         .forward_flops = static_cast<double>(forward_flops(layer, shapes[j])),
         .input_gradient_flops = j == 0           ? 0
                                 : parameters > 0 ? back / 2
                                                  : back,
         .weight_gradient_flops = parameters > 0 ? back / 2 : 0,
         .moved_bytes = moved,
         .weight_gradient_moved_bytes = moved,
         .output_bytes = elements(j + 1) * element_bytes,
         .tape_bytes = activation(static_cast<double>(tape_bytes(layer, shapes[j]))),
         .shared_tape_bytes = activation(shared_tape(model, shapes, j)),
         .weight_grad_activation_bytes =
             activation(static_cast<double>(weight_grad_activation_bytes(layer, shapes[j]))),
         .parameters = parameters,
         // Of tables, a row a token, which are among the activations moved.
         .read_parameters = std::holds_alternative<Embedding>(layer.kind) ? 0 : parameters,
         .tied = is_tied(model.layers[j])});
  }
  return facts;
}

std::int64_t ModelFacts::parameters() const {
  std::int64_t sum = 0;
  for (const LayerFacts& layer : layers) sum += layer.tied ? 0 : layer.parameters;
  return sum;
}

double ModelFacts::tape_bytes(const StageRange& stage) const {
  double sum = 0;
  for (int j = stage.first; j <= stage.last; ++j) {
    const LayerFacts& layer = layers[static_cast<std::size_t>(j)];
    sum += layer.tape_bytes - (j < stage.last ? layer.shared_tape_bytes : 0);
  }
  return sum;
}

std::vector<double> training_work(const ModelFacts& facts) {
  std::vector<double> work = forward_work(facts);
  for (std::size_t j = 0; j < work.size(); ++j) {
    const LayerFacts& layer = facts.layers[j];
    if (layer.input_gradient_flops > 0) {
      work[j] += layer.input_gradient_flops + flops_per_moved_byte * layer.moved_bytes;
    }
    if (layer.weight_gradient_flops > 0) {
      work[j] +=
          layer.weight_gradient_flops + flops_per_moved_byte * layer.weight_gradient_moved_bytes;
    }
  }
  return work;
}

std::vector<double> forward_work(const ModelFacts& facts) {
  std::vector<double> work;
  for (const LayerFacts& layer : facts.layers) {
    work.push_back(layer.forward_flops + flops_per_moved_byte * layer.moved_bytes);
  }
  return work;
}

}  // namespace unlatch::models
