#include "models/tied_head.h"

#include <algorithm>
#include <utility>

#include "schedules/error.h"

namespace unlatch::models {

bool has_tied_head(const Model& model) {
  return !model.layers.empty() && is_tied(model.layers.back());
}

Layer untied(Layer layer) {
  if (auto* linear = std::get_if<Linear>(&layer.kind)) linear->tied = false;
  return layer;
}

Model untied(Model model) {
  for (Layer& layer : model.layers) layer = untied(std::move(layer));
  return model;
}

std::int64_t tied_floats(const Model& model, const StageRange& range) {
  if (!has_tied_head(model)) return 0;
  const bool has_embedding = range.first == 0;
  const bool has_head = range.last == static_cast<int>(model.layers.size()) - 1;
  if (has_embedding == has_head) return 0;
  const auto& embedding = std::get<Embedding>(model.layers.front().kind);
  return std::int64_t{embedding.vocabulary} * embedding.width;
}

void drop_copied_table(const Model& model, std::vector<float>& weights) {
  weights.resize(static_cast<std::size_t>(parameter_count(model)));
}

void require_tied_head_fits(const Model& model, std::span<const SampleShape> shapes) {
  const auto tied = std::ranges::find_if(model.layers, is_tied);
  if (tied == model.layers.end()) return;
  require(&*tied == &model.layers.back(),
          "layer {}: only the last layer of a model can be tied, which is {}", tied->name,
          model.layers.back().name);
  const auto* embedding = std::get_if<Embedding>(&model.layers.front().kind);
  require(embedding != nullptr,
          "layer {}: it is tied to the table of an embedding, which must be the first layer, but "
          "that is {}",
          tied->name, model.layers.front().name);
  const std::int64_t outputs = shapes.back().features();
  const std::int64_t inputs = shapes[shapes.size() - 2].features();
  require(outputs == embedding->vocabulary && inputs == embedding->width,
          "layer {}: it gives {} features for {}, so it cannot be tied to the table of layer {}, "
          "{} tokens of width {}",
          tied->name, outputs, inputs, model.layers.front().name, embedding->vocabulary,
          embedding->width);
}

}  // namespace unlatch::models
