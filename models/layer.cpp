// Shapes and parameters of layers.
#include "models/layer.h"

#include <algorithm>
#include <numeric>

#include "models/layer_sizes.h"
#include "models/overloaded.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

/// Of a window that can go so far.
int places(std::int64_t room, int stride) { return static_cast<int>(room / stride + 1); }

SampleShape convolved(const std::string& name, const Convolution& convolution,
                      const SampleShape& input) {
  const auto& [out, kernel, stride, padding, bias, groups] = convolution;
  require(out >= 1 && kernel >= 1 && stride >= 1 && padding >= 0,
          "layer {}: a convolution needs positive channels, kernel and stride and no negative "
          "padding, not {} channels, kernel {}, stride {}, padding {}",
          name, out, kernel, stride, padding);
  require(groups >= 1 && out % groups == 0 && input.channels % groups == 0,
          "layer {}: {} groups do not divide its {} inputs and {} outputs; the number of groups "
          "must divide both",
          name, groups, input.channels, out);
  const std::int64_t around = 2 * std::int64_t{padding} - kernel;
  const std::int64_t height = input.height + around;
  const std::int64_t width = input.width + around;
  require(height >= 0 && width >= 0,
          "layer {}: a {}x{} kernel with padding {} does not fit into its {}x{} input; use larger "
          "images or a smaller model",
          name, kernel, kernel, padding, input.height, input.width);
  return {out, places(height, stride), places(width, stride)};
}

SampleShape pooled(const std::string& name, const MaxPool& pool, const SampleShape& input) {
  const auto& [kernel, stride, padding] = pool;
  require(kernel >= 1 && stride >= 1 && padding >= 0 && padding < kernel,
          "layer {}: pooling needs a positive kernel and stride and a padding below the kernel, "
          "not kernel {}, stride {}, padding {}",
          name, kernel, stride, padding);
  const std::int64_t around = 2 * std::int64_t{padding} - kernel;
  const std::int64_t height = input.height + around;
  const std::int64_t width = input.width + around;
  require(height >= 0 && width >= 0,
          "layer {}: a {}x{} pooling window with padding {} does not fit into its {}x{} input; use "
          "larger images or a smaller model",
          name, kernel, kernel, padding, input.height, input.width);
  return {input.channels, places(height, stride), places(width, stride)};
}

SampleShape chained(const std::vector<Layer>& layers, SampleShape shape) {
  for (const Layer& layer : layers) shape = output_shape(layer, shape);
  return shape;
}

SampleShape joined(const std::string& name, const Residual& residual, const SampleShape& input) {
  for (const auto* part : {&residual.body, &residual.shortcut}) {
    require(std::ranges::none_of(*part, is_tied),
            "layer {}: a layer inside a block cannot be tied, only the last of the model", name);
  }
  const SampleShape body = chained(residual.body, input);
  const SampleShape shortcut = chained(residual.shortcut, input);
  require(body == shortcut,
          "layer {}: the body gives {}x{}x{} and the shortcut {}x{}x{}; they must agree to be "
          "added",
          name, body.channels, body.height, body.width, shortcut.channels, shortcut.height,
          shortcut.width);
  return body;
}

void append_prefixed(std::vector<Parameter>& all, const std::string& name,
                     const std::vector<Layer>& layers, SampleShape shape) {
  for (const Layer& layer : layers) {
    for (Parameter& parameter : parameters(layer, shape)) {
      parameter.name = fmt::format("{}.{}", name, parameter.name);
      all.push_back(std::move(parameter));
    }
    shape = output_shape(layer, shape);
  }
}

void require_image(const Layer& layer, const SampleShape& input) {
  const bool wants_image = std::holds_alternative<Convolution>(layer.kind) ||
                           std::holds_alternative<BatchNorm>(layer.kind) ||
                           std::holds_alternative<MaxPool>(layer.kind) ||
                           std::holds_alternative<GlobalAveragePool>(layer.kind);
  require(!wants_image || !input.is_sequence,
          "layer {}: takes images, not a sequence of {} tokens with {} features", layer.name,
          input.channels, input.width);
}

SampleShape embedded(const std::string& name, const Embedding& embedding,
                     const SampleShape& input) {
  require(embedding.vocabulary >= 1 && embedding.width >= 1,
          "layer {}: an embedding needs a positive vocabulary and width, not {} and {}", name,
          embedding.vocabulary, embedding.width);
  require(input.is_sequence && input.width == 1,
          "layer {}: an embedding takes a sequence of token numbers (text:FILE), not {}x{}x{}",
          name, input.channels, input.height, input.width);
  return {input.channels, 1, embedding.width, true};
}

SampleShape attended(const std::string& name, const CausalSelfAttention& attention,
                     const SampleShape& input) {
  require(input.is_sequence, "layer {}: attention takes a sequence, not {}x{}x{}", name,
          input.channels, input.height, input.width);
  const int parts = 3 * attention.heads;
  require(attention.heads >= 1 && input.width % parts == 0,
          "layer {}: queries, keys and values of {} heads do not split {} features evenly", name,
          attention.heads, input.width);
  return {input.channels, 1, input.width / 3, true};
}

std::int64_t chained_statistics(const std::vector<Layer>& layers, SampleShape shape) {
  std::int64_t count = 0;
  for (const Layer& layer : layers) {
    count += statistic_count(layer, shape);
    shape = output_shape(layer, shape);
  }
  return count;
}

}  // namespace

std::int64_t Parameter::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

bool is_tied(const Layer& layer) {
  const auto* linear = std::get_if<Linear>(&layer.kind);
  return linear != nullptr && linear->tied;
}

SampleShape output_shape(const Layer& layer, const SampleShape& input) {
  require(input.channels >= 1 && input.height >= 1 && input.width >= 1,
          "layer {}: its input {}x{}x{} is empty", layer.name, input.channels, input.height,
          input.width);
  require_countable_input(layer, input);
  require_image(layer, input);
  const SampleShape output = std::visit(
      Overloaded{
          [&](const Convolution& c) { return convolved(layer.name, c, input); },
          [&](const BatchNorm&) { return input; },
          [&](const Relu&) { return input; },
          [&](const MaxPool& pool) { return pooled(layer.name, pool, input); },
          [&](const GlobalAveragePool&) {
            return SampleShape{input.channels, 1, 1};
          },
          [&](const Linear& linear) {
            require(linear.out_features >= 1,
                    "layer {}: a linear layer needs at least one output, not {}", layer.name,
                    linear.out_features);
            require(!linear.tied || !linear.bias,
                    "layer {}: a tied layer has no bias, as the table that it shares has none",
                    layer.name);
            return input.is_sequence ? SampleShape{input.channels, 1, linear.out_features, true}
                                     : SampleShape{linear.out_features, 1, 1};
          },
          [&](const Residual& residual) { return joined(layer.name, residual, input); },
          [&](const Dropout& dropout) {
            require(dropout.probability >= 0 && dropout.probability < 1,
                    "layer {}: the probability of dropout must be in [0, 1), not {}", layer.name,
                    dropout.probability);
            return input;
          },
          [&](const Embedding& embedding) { return embedded(layer.name, embedding, input); },
          [&](const LayerNorm&) {
            require(input.is_sequence, "layer {}: layer norm takes a sequence, not {}x{}x{}",
                    layer.name, input.channels, input.height, input.width);
            return input;
          },
          [&](const Gelu&) { return input; },
          [&](const CausalSelfAttention& a) { return attended(layer.name, a, input); },
      },
      layer.kind);
  require_countable(layer, input, output);
  return output;
}

std::vector<Parameter> parameters(const Layer& layer, const SampleShape& input) {
  std::vector<Parameter> all;
  const auto add = [&](const char* part, std::vector<int> shape) {
    all.push_back({fmt::format("{}.{}", layer.name, part), std::move(shape)});
  };
  std::visit(Overloaded{
                 [&](const Convolution& c) {
                   add("weight", {c.out_channels, input.channels / c.groups, c.kernel, c.kernel});
                   if (c.bias) add("bias", {c.out_channels});
                 },
                 [&](const BatchNorm&) {
                   add("gamma", {input.channels});
                   add("beta", {input.channels});
                 },
                 [&](const Linear& linear) {
                   if (linear.tied) return;
                   add("weight", {linear.out_features, static_cast<int>(input.features())});
                   if (linear.bias) add("bias", {linear.out_features});
                 },
                 [&](const Residual& residual) {
                   append_prefixed(all, layer.name, residual.body, input);
                   append_prefixed(all, layer.name, residual.shortcut, input);
                 },
                 [&](const Embedding& embedding) {
                   add("token", {embedding.vocabulary, embedding.width});
                   add("position", {input.rows(), embedding.width});
                 },
                 [&](const LayerNorm&) {
                   add("gamma", {static_cast<int>(input.features())});
                   add("beta", {static_cast<int>(input.features())});
                 },
                 [](const auto&) {},  // ReLU, GELU, pooling, dropout and attention have none
             },
             layer.kind);
  return all;
}

std::int64_t parameter_count(const Layer& layer, const SampleShape& input) {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters(layer, input)) count += parameter.elements();
  return count;
}

std::int64_t statistic_count(const Layer& layer, const SampleShape& input) {
  if (std::holds_alternative<BatchNorm>(layer.kind)) return std::int64_t{2} * input.channels;
  const auto* residual = std::get_if<Residual>(&layer.kind);
  if (!residual) return 0;
  return chained_statistics(residual->body, input) + chained_statistics(residual->shortcut, input);
}

}  // namespace unlatch::models
