// Floating-point operations of layers and the bytes that they keep.
//
// A multiply-add counts 2, a comparison 1. What is done once a channel and batch (the roots and
// divisions of batch norm) does not count. Convolutions and pooling count their
// padding as data. Of attention the products are those of all pairs, as they are counted
// everywhere, the softmax that of the pairs a token sees; an exponential or erf counts 1.
#include <functional>

#include "models/layer.h"
#include "models/overloaded.h"

namespace unlatch::models {

namespace {

using Fact = std::int64_t (*)(const Layer&, const SampleShape&);

std::int64_t chained(Fact fact, const std::vector<Layer>& layers, SampleShape shape) {
  std::int64_t sum = 0;
  for (const Layer& layer : layers) {
    sum += fact(layer, shape);
    shape = output_shape(layer, shape);
  }
  return sum;
}

/// Multiply-adds of one product of the weights with one sample.
std::int64_t products(const Convolution& c, const SampleShape& input, const SampleShape& output) {
  return output.elements() * (input.channels / c.groups) * c.kernel * c.kernel;
}

std::int64_t window(const MaxPool& pool) { return std::int64_t{pool.kernel} * pool.kernel; }

bool keeps_input(const Layer& layer) {
  return std::holds_alternative<Convolution>(layer.kind) ||
         std::holds_alternative<BatchNorm>(layer.kind) ||
         std::holds_alternative<Relu>(layer.kind) || std::holds_alternative<Linear>(layer.kind) ||
         std::holds_alternative<Embedding>(layer.kind) ||
         std::holds_alternative<LayerNorm>(layer.kind) ||
         std::holds_alternative<Gelu>(layer.kind) ||
         std::holds_alternative<CausalSelfAttention>(layer.kind);
}

bool has_matrix(const Layer& layer) {
  return std::holds_alternative<Convolution>(layer.kind) ||
         std::holds_alternative<Linear>(layer.kind) ||
         std::holds_alternative<Embedding>(layer.kind);
}

/// Pairs of a token and one that it sees, of all heads.
std::int64_t causal_pairs(const CausalSelfAttention& attention, const SampleShape& input) {
  return std::int64_t{attention.heads} * input.rows() * (input.rows() + 1) / 2;
}

/// FLOPs of Q K^T of all heads; as many as those of the scores with V.
std::int64_t score_product(const SampleShape& input, const SampleShape& output) {
  return 2 * output.elements() * input.rows();
}

std::int64_t bytes_beside_input(const Layer& layer, const SampleShape& input) {
  if (std::holds_alternative<LayerNorm>(layer.kind)) return 2 * 4 * std::int64_t{input.rows()};
  const auto* attention = std::get_if<CausalSelfAttention>(&layer.kind);
  if (attention == nullptr) return 0;
  return 4 * std::int64_t{attention->heads} * input.rows() * input.rows();
}

/// Two branches that begin, or end, with a matrix share what that one reads.
std::int64_t residual_weight_grad(const Residual& residual, const SampleShape& input,
                                  const SampleShape& output) {
  const std::int64_t both = chained(weight_grad_activation_bytes, residual.body, input) +
                            chained(weight_grad_activation_bytes, residual.shortcut, input);
  if (residual.body.empty() || residual.shortcut.empty()) return both;
  const bool one_input = has_matrix(residual.body.front()) && has_matrix(residual.shortcut.front());
  const bool one_gradient =
      has_matrix(residual.body.back()) && has_matrix(residual.shortcut.back());
  return both - (one_input ? 4 * input.elements() : 0) - (one_gradient ? 4 * output.elements() : 0);
}

/// What a ReLU in front of it keeps as well.
bool keeps_output_before(const Layer& layer) {
  const auto* residual = std::get_if<Residual>(&layer.kind);
  if (residual == nullptr) {
    return keeps_input(layer) && !std::holds_alternative<Relu>(layer.kind);
  }
  const auto begins_so = [](const std::vector<Layer>& branch) {
    return !branch.empty() && keeps_output_before(branch.front());
  };
  return begins_so(residual->body) || begins_so(residual->shortcut);
}

std::int64_t residual_tape(const Residual& residual, const SampleShape& input) {
  const std::int64_t both = tape_bytes(residual.body, input) + tape_bytes(residual.shortcut, input);
  const bool shared = !residual.body.empty() && !residual.shortcut.empty() &&
                      keeps_input(residual.body.front()) && keeps_input(residual.shortcut.front());
  return shared ? both - 4 * input.elements() : both;
}

}  // namespace

std::int64_t forward_flops(const Layer& layer, const SampleShape& input) {
  const SampleShape output = output_shape(layer, input);
  const std::int64_t in = input.elements();
  const std::int64_t out = output.elements();
  return std::visit(
      Overloaded{
          [&](const Convolution& c) { return 2 * products(c, input, output) + (c.bias ? out : 0); },
          // Mean 1, variance 3, normalisation 2, gamma and beta 2.
          [&](const BatchNorm&) { return 8 * in; },
          [&](const Relu&) { return in; },
          [&](const MaxPool& pool) { return out * (window(pool) - 1); },
          [&](const GlobalAveragePool&) { return in; },
          [&](const Linear& linear) {
            return 2 * input.features() * out + (linear.bias ? out : 0);
          },
          [&](const Residual& residual) {
            return chained(forward_flops, residual.body, input) +
                   chained(forward_flops, residual.shortcut, input) + out;
          },
          [&](const Dropout&) { return in; },
          [&](const Embedding&) { return out; },
          [&](const LayerNorm&) { return 8 * in; },  // as batch norm
          [&](const Gelu&) { return 5 * in; },
          // Scale, maximum, difference, exponential, sum, quotient.
          [&](const CausalSelfAttention& a) {
            return 2 * score_product(input, output) + 6 * causal_pairs(a, input);
          },
      },
      layer.kind);
}

std::int64_t backward_flops(const Layer& layer, const SampleShape& input) {
  const SampleShape output = output_shape(layer, input);
  const std::int64_t in = input.elements();
  const std::int64_t out = output.elements();
  return std::visit(
      Overloaded{
          [&](const Convolution& c) { return 4 * products(c, input, output) + (c.bias ? out : 0); },
          // Sums of the gradient 1 and of its product with the normalised input 2, that input
          // again 2, gradient of the input 4.
          [&](const BatchNorm&) { return 9 * in; },
          [&](const Relu&) { return in; },
          [&](const MaxPool&) { return out; },
          [&](const GlobalAveragePool&) { return in; },
          [&](const Linear& linear) {
            return 4 * input.features() * out + (linear.bias ? out : 0);
          },
          [&](const Residual& residual) {
            return chained(backward_flops, residual.body, input) +
                   chained(backward_flops, residual.shortcut, input) + in;
          },
          [&](const Dropout&) { return in; },
          [&](const Embedding&) { return 2 * out; },
          // Gradients of beta 1 and gamma 2, normalised input 2, scaled gradient 1, its sum 1 and
          // that of its product with the normalised input 2, gradient of the input 4.
          [&](const LayerNorm&) { return 13 * in; },
          [&](const Gelu&) { return 10 * in; },
          // Product with the gradient 1 and its sum 1, difference, product, scale.
          [&](const CausalSelfAttention& a) {
            return 4 * score_product(input, output) + 5 * causal_pairs(a, input);
          },
      },
      layer.kind);
}

std::int64_t moved_elements(const Layer& layer, const SampleShape& input) {
  const std::int64_t out = output_shape(layer, input).elements();
  const auto* residual = std::get_if<Residual>(&layer.kind);
  if (residual == nullptr) return input.elements() + out;
  const std::int64_t sum = 3 * out;  // two terms and what they come to
  return chained(moved_elements, residual->body, input) +
         chained(moved_elements, residual->shortcut, input) + sum;
}

std::int64_t tape_bytes(const Layer& layer, const SampleShape& input) {
  if (keeps_input(layer)) return 4 * input.elements() + bytes_beside_input(layer, input);
  return std::visit(
      Overloaded{
          [&](const MaxPool& pool) {
            const std::int64_t place_bytes = window(pool) <= 256 ? 1 : 4;
            return place_bytes * output_shape(layer, input).elements();
          },
          [&](const Residual& residual) { return residual_tape(residual, input); },
          [&](const Dropout&) { return input.elements(); },
          [](const auto&) { return std::int64_t{0}; },  // global average pool: the shape is enough
      },
      layer.kind);
}

std::int64_t tape_bytes(std::span<const Layer> layers, SampleShape input) {
  std::int64_t sum = 0;
  for (std::size_t j = 0; j < layers.size(); ++j) {
    const bool counts_with_next = std::holds_alternative<Relu>(layers[j].kind) &&
                                  j + 1 < layers.size() && keeps_output_before(layers[j + 1]);
    if (!counts_with_next) sum += tape_bytes(layers[j], input);
    input = output_shape(layers[j], input);
  }
  return sum;
}

std::int64_t weight_grad_activation_bytes(const Layer& layer, const SampleShape& input) {
  const SampleShape output = output_shape(layer, input);
  if (has_matrix(layer)) return 4 * (input.elements() + output.elements());
  const auto* residual = std::get_if<Residual>(&layer.kind);
  return residual == nullptr ? 0 : residual_weight_grad(*residual, input, output);
}

}  // namespace unlatch::models
