// The models by name, and their initial weights.
#include "models/model.h"

#include <cmath>
#include <numeric>

#include "models/language_model.h"
#include "models/model_file.h"
#include "models/network_family.h"
#include "models/overloaded.h"
#include "models/random.h"
#include "models/specification.h"
#include "models/tied_head.h"
#include "models/transformer.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

Model mlp(const Specification& given, const SampleShape& input, int classes) {
  given.allow_keys({"hidden"});
  Model model{.name = "mlp", .input = input, .classes = classes, .layers = {}};
  int number = 1;
  for (int size : given.list("hidden", {64, 64}, 1, 1 << 20)) {
    model.layers.push_back({fmt::format("linear{}", number), Linear{.out_features = size}});
    model.layers.push_back({fmt::format("relu{}", number), Relu{}});
    ++number;
  }
  model.layers.push_back({fmt::format("linear{}", number), Linear{.out_features = classes}});
  return model;
}

Model lenet(const Specification& given, const SampleShape& input, int classes) {
  given.allow_keys({"dropout"});
  const double dropout = given.number("dropout", 0, 0, 0.99);
  const bool small = input.height < 28 || input.width < 28;
  const int kernel = small ? 3 : 5;
  Model model{
      .name = "lenet",
      .input = input,
      .classes = classes,
      .layers = {
          {"conv1", Convolution{.out_channels = 6, .kernel = kernel, .padding = kernel / 2}},
          {"relu1", Relu{}},
          {"pool1", MaxPool{}},
          {"conv2", Convolution{.out_channels = 16, .kernel = kernel, .padding = small ? 1 : 0}},
          {"relu2", Relu{}},
          {"pool2", MaxPool{}},
      }};
  const auto add = [&](int number, int out) {
    model.layers.push_back({fmt::format("linear{}", number), Linear{.out_features = out}});
    model.layers.push_back({fmt::format("relu{}", number + 2), Relu{}});
    if (dropout > 0) model.layers.push_back({fmt::format("dropout{}", number), Dropout{dropout}});
  };
  add(1, 120);
  add(2, 84);
  model.layers.push_back({"linear3", Linear{.out_features = classes}});
  return model;
}

Specification parsed(std::string_view specification) {
  require_trainable(specification);
  Specification given("model", specification);
  if (!family_of(given.name())) given.allow_names(model_names());
  given.refuse_argument();
  return given;
}

Model model_in_file(std::string_view specification) {
  const Specification given("model", specification);
  given.allow_keys({});
  given.refuse_argument();
  return read_model(given.name());
}

/// Weights are uniform in +- so much.
double initial_bound(const Layer& layer, const SampleShape& input) {
  constexpr double deviation_of_embeddings = 0.02;
  if (std::holds_alternative<Embedding>(layer.kind)) return deviation_of_embeddings * std::sqrt(3);
  const std::vector<int> shape = parameters(layer, input).front().shape;
  const double fan_in = std::accumulate(shape.begin() + 1, shape.end(), 1.0, std::multiplies<>());
  return 1 / std::sqrt(fan_in);
}

/// Appends the values of one layer; `leaf` counts the layers inside a residual, depth first.
void append_initial(std::vector<float>& weights, const Layer& layer, SampleShape input,
                    std::uint64_t key, std::uint64_t& leaf) {
  if (const auto* residual = std::get_if<Residual>(&layer.kind)) {
    for (const auto* part : {&residual->body, &residual->shortcut}) {
      SampleShape shape = input;
      for (const Layer& inner : *part) {
        append_initial(weights, inner, shape, key, leaf);
        shape = output_shape(inner, shape);
      }
    }
    return;
  }
  const std::uint64_t own = derived_key(key, leaf++);
  const std::int64_t count = parameter_count(layer, input);
  if (std::holds_alternative<BatchNorm>(layer.kind) ||
      std::holds_alternative<LayerNorm>(layer.kind)) {
    weights.insert(weights.end(), count / 2, 1.0F);
    weights.insert(weights.end(), count / 2, 0.0F);
    return;
  }
  if (count == 0) return;
  const double bound = initial_bound(layer, input);
  for (std::int64_t i = 0; i < count; ++i) {
    weights.push_back(static_cast<float>((2 * random_uniform(own, i) - 1) * bound));
  }
}

void append_statistics(std::vector<float>& statistics, const Layer& layer, SampleShape input) {
  if (const auto* residual = std::get_if<Residual>(&layer.kind)) {
    for (const auto* part : {&residual->body, &residual->shortcut}) {
      SampleShape shape = input;
      for (const Layer& inner : *part) {
        append_statistics(statistics, inner, shape);
        shape = output_shape(inner, shape);
      }
    }
  } else if (std::holds_alternative<BatchNorm>(layer.kind)) {
    statistics.insert(statistics.end(), input.channels, 0.0F);
    statistics.insert(statistics.end(), input.channels, 1.0F);
  }
}

void require_layer(const Model& model, int layer) {
  require(layer >= 0 && layer < static_cast<int>(model.layers.size()),
          "model {}: there is no layer {}, it has {}", model.name, layer, model.layers.size());
}

}  // namespace

std::vector<SampleShape> Model::shapes() const {
  std::vector<SampleShape> all{input};
  for (const Layer& layer : layers) all.push_back(output_shape(layer, all.back()));
  require_tied_head_fits(*this, all);
  return all;
}

std::vector<Layer> Model::layers_of(const StageRange& range) const {
  std::vector<Layer> own(layers.begin() + range.first, layers.begin() + range.last + 1);
  if (range.first > 0) own.back() = untied(std::move(own.back()));
  return own;
}

std::vector<std::string_view> model_names() {
  return {"mlp",       "lenet",     "resnet18",     "resnet34",      "resnet50",
          "resnet101", "resnet152", "resnet20",     "resnet32",      "resnet44",
          "resnet56",  "resnet110", "resnet164",    "resnet1202",    "vgg11",
          "vgg13",     "vgg16",     "vgg19",        "resnext29",     "wrn-28-10",
          "wrn-16-8",  "wrn-40-4",  "preresnet164", "preresnet1001", "transformer"};
}

void require_trainable(std::string_view specification) {
  require(!names_transformer(specification),
          "model {}: a shape for simulation only, with --cluster in simulate and compare, and in "
          "partition; the models that can be trained are {}",
          specification, fmt::join(model_names(), ", "));
}

SampleShape usual_input(std::string_view specification) {
  if (names_model_file(specification)) return model_in_file(specification).input;
  const Specification given = parsed(specification);
  if (given.name() == "transformer") return language_input(given);
  const auto family = family_of(given.name());
  return family ? family->usual_input(given.name()) : SampleShape{1, 28, 28};
}

int usual_classes(std::string_view specification) {
  if (names_model_file(specification)) return model_in_file(specification).classes;
  constexpr int bytes = 256;
  return parsed(specification).name() == "transformer" ? bytes : 10;
}

Model make_model(std::string_view specification, const SampleShape& input, int classes) {
  if (names_model_file(specification)) {
    Model model = model_in_file(specification);
    require(classes == model.classes, "model {}: it tells {} classes apart, the data have {}",
            specification, model.classes, classes);
    return model;
  }
  const Specification given = parsed(specification);
  require(classes >= 2, "model {}: needs at least 2 classes, not {}", specification, classes);
  if (given.name() == "transformer") return language_model(given, input, classes);
  require(!input.is_sequence, "model {}: takes images; text is for the model transformer",
          specification);
  const auto family = family_of(given.name());
  Model model = family                  ? family->make(given, input, classes)
                : given.name() == "mlp" ? mlp(given, input, classes)
                                        : lenet(given, input, classes);
  number_dropouts(model);
  model.shapes();  // throws if the input is too small for a layer
  return model;
}

std::vector<float> initial_weights(const Model& model, int layer, std::uint64_t seed) {
  require_layer(model, layer);
  std::vector<float> weights;
  std::uint64_t leaf = 0;
  append_initial(weights, model.layers[layer], model.shapes()[layer], derived_key(seed, layer),
                 leaf);
  return weights;
}

std::vector<float> initial_statistics(const Model& model, int layer) {
  require_layer(model, layer);
  std::vector<float> statistics;
  append_statistics(statistics, model.layers[layer], model.shapes()[layer]);
  return statistics;
}

namespace {

/// Those of every layer of a range, one after the other.
template <class OfLayer>
std::vector<float> joined(const StageRange& range, const OfLayer& of_layer) {
  std::vector<float> all;
  for (int j = range.first; j <= range.last; ++j) {
    const std::vector<float> more = of_layer(j);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace

std::vector<float> initial_weights(const Model& model, const StageRange& range,
                                   std::uint64_t seed) {
  std::vector<float> weights =
      joined(range, [&](int layer) { return initial_weights(model, layer, seed); });
  if (range.first == 0) return weights;
  const std::int64_t copied = tied_floats(model, range);
  if (copied == 0) return weights;
  const std::vector<float> tables = initial_weights(model, 0, seed);
  weights.insert(weights.end(), tables.begin(), tables.begin() + copied);
  return weights;
}

std::vector<float> initial_statistics(const Model& model, const StageRange& range) {
  return joined(range, [&](int layer) { return initial_statistics(model, layer); });
}

void require_covers(const Model& model, std::span<const StageRange> stages) {
  const int layers = static_cast<int>(model.layers.size());
  int next = 0;
  for (const StageRange& range : stages) {
    require(range.first == next && range.last >= range.first && range.last < layers,
            "model {}: a stage of layers {} to {} does not follow layer {}; stages are contiguous "
            "and cover the model",
            model.name, range.first, range.last, next - 1);
    next = range.last + 1;
  }
  require(next == layers, "model {}: the stages cover {} of {} layers", model.name, next, layers);
}

std::int64_t parameter_count(const Model& model) {
  const std::vector<SampleShape> shapes = model.shapes();
  std::int64_t count = 0;
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    count += parameter_count(model.layers[j], shapes[j]);
  }
  return count;
}

}  // namespace unlatch::models
