#include "exec/head_networks.h"

#include <algorithm>
#include <cmath>

#include "models/random.h"

namespace unlatch::exec {
namespace {

constexpr int taps = 3;  ///< of a synthesiser's convolution, in each direction

/// A network on a stage's output (or on the error), as a model of its own.
models::Model network(const models::SampleShape& input, int classes,
                      std::vector<models::Layer> layers) {
  return {.name = "local head", .input = input, .classes = classes, .layers = std::move(layers)};
}

models::Layer linear(std::int64_t out, bool bias) {
  return {.name = "head", .kind = models::Linear{static_cast<int>(out), bias}};
}

}  // namespace

models::Model classifier(const models::SampleShape& output, int classes) {
  std::vector<models::Layer> layers;
  if (const int half = std::min(output.height, output.width) / 2; half > 1) {
    layers.push_back({.name = "head pool", .kind = models::MaxPool{half, half}});
  }
  layers.push_back(linear(classes, true));
  return network(output, classes, std::move(layers));
}

bool is_mapped_by_convolution(const models::SampleShape& output) {
  constexpr int most_for_a_matrix = 1024;
  return !output.is_sequence && output.height * output.width > 1 &&
         output.elements() > most_for_a_matrix;
}

int meetings_with_weights(const models::SampleShape& output) {
  return is_mapped_by_convolution(output) ? taps * taps : 1;
}

models::Model map_of_outputs(const models::SampleShape& output, int classes) {
  if (!is_mapped_by_convolution(output)) {
    return network(output, classes, {linear(output.features(), false)});
  }
  const models::Convolution convolution{.out_channels = output.channels,
                                        .kernel = taps,
                                        .stride = 1,
                                        .padding = taps / 2,
                                        .bias = false};
  return network(output, classes, {{.name = "head", .kind = convolution}});
}

models::Model map_of_errors(int classes, const models::SampleShape& output) {
  const models::SampleShape error = output.is_sequence
                                        ? models::SampleShape{output.rows(), 1, classes, true}
                                        : models::SampleShape{classes, 1, 1};
  return network(error, classes, {linear(output.features(), false)});
}

/// A linear layer's +-1/sqrt(classes) would give a gradient much larger than the error.
std::vector<float> feedback_weights(int classes, const models::SampleShape& output,
                                    std::uint64_t seed) {
  std::vector<float> weights = models::initial_weights(map_of_errors(classes, output), 0, seed);
  const auto factor =
      static_cast<float>(std::sqrt(classes / static_cast<double>(output.features())));
  for (float& b : weights) b *= factor;
  return weights;
}

std::uint64_t seed_of_head(std::uint64_t seed_of_run, std::size_t model_stage) {
  constexpr std::uint64_t stream = 0x6865616473;
  return models::derived_key(models::derived_key(seed_of_run, stream), model_stage);
}

HeadSize head_size(const LocalGradients& local, const models::SampleShape& output, int classes) {
  switch (local.source) {
    case GradientSource::local_head: {
      const std::int64_t floats = models::parameter_count(classifier(output, classes));
      return {floats, floats};
    }
    case GradientSource::synthesiser: {
      const std::int64_t floats = models::parameter_count(map_of_outputs(output, classes));
      return {floats + output.features() * (local.conditional ? classes : 1), floats};
    }
    case GradientSource::feedback:
      return {models::parameter_count(map_of_errors(classes, output)), 0};
    case GradientSource::next_stage:
      break;
  }
  return {};
}

}  // namespace unlatch::exec
