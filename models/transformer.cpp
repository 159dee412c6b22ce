// What the layers of a transformer cost.
#include "models/transformer.h"

#include <fmt/format.h>

namespace unlatch::models {
namespace {

/// One kind of shape in doubles: products of its numbers exceed 32 bits.
class Counts {
 public:
  Counts(const TransformerShape& shape, double element_bytes)
      : shape_(shape), element_(element_bytes) {}

  LayerFacts embedding() const {
    LayerFacts facts{.name = "embedding"};
    // A row of each table is read and written.
    facts.moved_bytes = input_bytes() + 2 * hidden();
    facts.weight_gradient_moved_bytes = input_bytes() + 2 * hidden();
    facts.output_bytes = hidden();
    facts.tape_bytes = mask();
    facts.weight_grad_activation_bytes = hidden();
    facts.parameters = std::int64_t{shape_.vocabulary} * shape_.width +
                       std::int64_t{shape_.positions} * shape_.width;
    return facts;
  }

  LayerFacts block(int number) const {
    const double weights = 2 * s_ * static_cast<double>(matrices());
    LayerFacts facts{.name = fmt::format("block{}", number)};
    facts.forward_flops = weights + 2 * score_product();
    facts.input_gradient_flops = weights + score_products_back() * score_product();
    facts.weight_gradient_flops = weights;
    // What is kept was written by one operation and read by another.
    const double scores = shape_.attention == Attention::flash ? 0 : kept_scores();
    facts.moved_bytes = 2 * (kept_without_scores() + scores);
    facts.weight_grad_activation_bytes = kept_for_weights();
    facts.weight_gradient_moved_bytes = facts.weight_grad_activation_bytes;
    facts.output_bytes = hidden();
    facts.tape_bytes = kept_without_scores() + kept_of_attention();
    facts.parameters = matrices() + biases() + 2 * norm();
    facts.read_parameters = facts.parameters;
    return facts;
  }

  LayerFacts final_norm() const {
    LayerFacts facts{.name = "final_norm"};
    facts.moved_bytes = facts.weight_gradient_moved_bytes = 2 * hidden();
    facts.output_bytes = facts.tape_bytes = hidden();
    facts.parameters = facts.read_parameters = norm();
    return facts;
  }

  /// Logits and their softmax are float32.
  LayerFacts head() const {
    const double logits = s_ * shape_.vocabulary * sizeof(float);
    LayerFacts facts{.name = "head"};
    facts.parameters = facts.read_parameters = std::int64_t{shape_.vocabulary} * shape_.width;
    facts.tied = shape_.tied;
    facts.forward_flops = 2 * s_ * static_cast<double>(facts.parameters);
    facts.input_gradient_flops = facts.weight_gradient_flops = facts.forward_flops;
    facts.moved_bytes = facts.weight_gradient_moved_bytes = hidden() + logits;
    facts.output_bytes = logits;
    facts.tape_bytes = hidden() + logits;
    facts.weight_grad_activation_bytes = hidden() + s_ * shape_.vocabulary * element_;
    return facts;
  }

  /// Token numbers, 64 bits each.
  double input_bytes() const { return s_ * sizeof(std::int64_t); }

 private:
  /// One activation of a sequence.
  double hidden() const { return s_ * h_ * element_; }
  /// Of a dropout on it, a byte an element.
  double mask() const { return shape_.dropout ? s_ * h_ : 0; }
  /// Of K or V; Q has the whole width.
  std::int64_t kv_width() const {
    return std::int64_t{shape_.kv_heads} * (shape_.width / shape_.heads);
  }
  double kv() const { return s_ * static_cast<double>(kv_width()) * element_; }
  double mlp() const { return s_ * shape_.mlp_width * element_; }

  std::int64_t matrices() const {
    const std::int64_t width = shape_.width;
    return 2 * width * width + 2 * width * kv_width() +
           (shape_.gated ? 3 : 2) * width * shape_.mlp_width;
  }
  std::int64_t biases() const {
    if (!shape_.biases) return 0;
    const std::int64_t of_attention = 2 * std::int64_t{shape_.width} + 2 * kv_width();
    return of_attention + (shape_.gated ? 2 : 1) * std::int64_t{shape_.mlp_width} + shape_.width;
  }
  std::int64_t norm() const { return (shape_.layer_norm ? 2 : 1) * std::int64_t{shape_.width}; }

  /// FLOPs of Q K^T; as many as those of the scores with V.
  double score_product() const { return 2 * s_ * s_ * h_; }
  double score_products_back() const {
    switch (shape_.attention) {
      case Attention::selective:
        return 4 + 2;
      case Attention::flash:
        return 4 + 1;
      case Attention::full:
        break;
    }
    return 4;
  }

  /// Inputs of norms, of products and of what stands between them.
  double kept_without_scores() const {
    const double attention = 3 * hidden() + 2 * kv() + mask();
    // GELU's input and output; gated also the other factor and the product.
    const double mlp_part = hidden() + (shape_.gated ? 4 : 2) * mlp() + mask();
    return attention + mlp_part + 2 * hidden();
  }
  /// Softmax, and where there is dropout its output and mask, a value for each head and pair.
  double kept_scores() const {
    const double pairs = s_ * s_ * shape_.heads;
    return pairs * (shape_.dropout ? 2 * element_ + 1 : element_);
  }
  double kept_of_attention() const {
    switch (shape_.attention) {
      case Attention::full:
        return kept_scores();
      case Attention::flash:
        return s_ * shape_.heads * sizeof(float);  // logarithms of the rows' sums
      case Attention::selective:
        break;
    }
    return 0;
  }
  /// Inputs of the products with weights, and the gradients of their outputs.
  double kept_for_weights() const {
    const double inputs = 3 * hidden() + mlp();
    const double gradients = 3 * hidden() + 2 * kv() + (shape_.gated ? 2 : 1) * mlp();
    return inputs + gradients;
  }

  const TransformerShape& shape_;
  double element_;
  double s_ = shape_.sequence;
  double h_ = shape_.width;
};

}  // namespace

ModelFacts facts_of(const TransformerShape& shape, double element_bytes) {
  const Counts counts(shape, element_bytes);
  ModelFacts facts{
      .name = shape.name, .input_bytes = counts.input_bytes(), .layers = {counts.embedding()}};
  for (int j = 0; j < shape.layers; ++j) facts.layers.push_back(counts.block(j));
  facts.layers.push_back(counts.final_norm());
  facts.layers.push_back(counts.head());
  return facts;
}

}  // namespace unlatch::models
