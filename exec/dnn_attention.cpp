// Causal self-attention: oneDNN's products of one head of one sample at a time, so that its scores
// stay in the cache, and a softmax by hand over the tokens that each token sees.
#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/dnn_op.h"
#include "exec/dnn_product.h"

namespace unlatch::exec {
namespace {

/// Of scores [tokens, tokens] in place; a token sees those up to its own.
void causal_softmax(float* scores, std::int64_t tokens) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    float* row = scores + t * tokens;
    const std::int64_t seen = t + 1;
    const float largest = *std::max_element(row, row + seen);
    float sum = 0;
    for (std::int64_t s = 0; s < seen; ++s) sum += row[s] = std::exp(row[s] - largest);
    const float factor = 1 / sum;
    for (std::int64_t s = 0; s < seen; ++s) row[s] *= factor;
    std::fill(row + seen, row + tokens, 0.0F);
  }
}

/// Makes the gradient of the softmax that of the scores.
void causal_softmax_gradient(const float* softmax, float* gradient, std::int64_t tokens) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* p = softmax + t * tokens;
    float* g = gradient + t * tokens;
    const std::int64_t seen = t + 1;
    float dot = 0;
    for (std::int64_t s = 0; s < seen; ++s) dot += p[s] * g[s];
    for (std::int64_t s = 0; s < seen; ++s) g[s] = p[s] * (g[s] - dot);
    std::fill(g + seen, g + tokens, 0.0F);
  }
}

class Attention : public Op {
 public:
  Attention(const models::CausalSelfAttention& layer, const Place& input)
      : Op(attended(layer, input)),
        heads_(layer.heads),
        tokens_(input.shape.rows()),
        width_(output().shape.width),
        size_(width_ / heads_),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(size_)))) {}

  Flow forward(const Flat&, Flow input, Kept* kept, Call& call) const override {
    const Tensor result = call.pool.take(output().bytes());
    const Tensor softmax = call.pool.take(softmax_floats() * sizeof(float));
    each_head([&](const Head& head) {
      const float* q = input.tensor.data<float>() + head.in;
      float* p = softmax.data<float>() + head.pairs;
      multiply(of_pairs(scale_), q, q + width_, p);
      causal_softmax(p, tokens_);
      multiply(of_values(false, 1, width_), p, q + 2 * width_, result.data<float>() + head.out);
    });
    if (kept != nullptr) kept->tensors = {std::move(input.tensor), softmax};
    return {result, true};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    const Tensor result = call.pool.take(done.tensors[0].bytes());
    const auto pairs = static_cast<std::size_t>(tokens_ * tokens_);
    auto* scores = reinterpret_cast<float*>(call.workspace.at_least(pairs * sizeof(float)));
    each_head([&](const Head& head) {
      const float* q = done.tensors[0].data<float>() + head.in;
      const float* p = done.tensors[1].data<float>() + head.pairs;
      const float* g = gradient.tensor.data<float>() + head.out;
      float* dq = result.data<float>() + head.in;
      Product to_values = of_values(true, 1, 3 * width_);
      to_values.b_stride = width_;
      multiply(to_values, p, g, dq + 2 * width_);
      Product to_softmax = of_pairs(1);
      to_softmax.a_stride = width_;
      multiply(to_softmax, g, q + 2 * width_, scores);
      causal_softmax_gradient(p, scores, tokens_);
      multiply(of_values(false, scale_, 3 * width_), scores, q + width_, dq);
      multiply(of_values(true, scale_, 3 * width_), scores, q, dq + width_);
    });
    return {result, true};
  }

 private:
  /// First floats of one head of one sample.
  struct Head {
    std::int64_t in, out, pairs;
  };

  static Place attended(const models::CausalSelfAttention& layer, Place place) {
    place.shape = models::output_shape({.name = "attention", .kind = layer}, place.shape);
    place.layout = plain_layout(place.samples, place.shape);
    return place;
  }
  std::size_t softmax_floats() const {
    return static_cast<std::size_t>(output().samples * heads_ * tokens_ * tokens_);
  }
  template <class F>
  void each_head(F f) const {
    for (std::int64_t n = 0; n < output().samples; ++n) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        f(Head{.in = n * tokens_ * 3 * width_ + h * size_,
               .out = n * tokens_ * width_ + h * size_,
               .pairs = (n * heads_ + h) * tokens_ * tokens_});
      }
    }
  }
  /// [tokens, size of a head] by the same of the other factor, transposed, to pairs of tokens.
  Product of_pairs(float alpha) const {
    return {.a_transposed = false,
            .b_transposed = true,
            .m = tokens_,
            .n = tokens_,
            .k = size_,
            .beta = 0,
            .alpha = alpha,
            .a_stride = 3 * width_,
            .b_stride = 3 * width_};
  }
  /// Pairs of tokens by [tokens, size of a head].
  Product of_values(bool transposed, float alpha, std::int64_t c_stride) const {
    return {.a_transposed = transposed,
            .b_transposed = false,
            .m = tokens_,
            .n = size_,
            .k = tokens_,
            .beta = 0,
            .alpha = alpha,
            .b_stride = 3 * width_,
            .c_stride = c_stride};
  }

  std::int64_t heads_;
  std::int64_t tokens_;
  std::int64_t width_;
  std::int64_t size_;  ///< features of a head
  float scale_;
};

}  // namespace

std::unique_ptr<Op> make_attention(const models::CausalSelfAttention& layer, const Place& input) {
  return std::make_unique<Attention>(layer, input);
}

}  // namespace unlatch::exec
