// Rows of two tables, one by the number of a token and one by its position, added. Weights: tokens
// [vocabulary, width], then positions [tokens, width].
#include <utility>

#include "exec/dnn_op.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

void add(const float* x, float* sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

class Embedding : public Op {
 public:
  Embedding(const models::Embedding& layer, const Place& input)
      : Op(embedded(layer, input)),
        vocabulary_(layer.vocabulary),
        width_(layer.width),
        positions_(input.shape.rows()),
        rows_(std::int64_t{input.samples} * positions_) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    const Tensor result = call.pool.take(output().bytes());
    const auto* tokens = input.tensor.data<float>();
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* token = flat.weights + token_row(tokens[r]);
      const float* position = flat.weights + position_row(r);
      float* y = result.data<float>() + r * width_;
      for (std::int64_t c = 0; c < width_; ++c) y[c] = token[c] + position[c];
    }
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    kept.tensors.push_back(std::move(gradient.tensor));
    if (!wants_input) return {};
    return {call.pool.take_zeroed(kept.tensors[0].bytes()), true};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Call&) const override {
    const auto* tokens = kept.tensors[0].data<float>();
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* g = kept.tensors[1].data<float>() + r * width_;
      add(g, flat.gradient + token_row(tokens[r]), width_);
      add(g, flat.gradient + position_row(r), width_);
    }
  }

 private:
  static Place embedded(const models::Embedding& layer, Place place) {
    place.shape = models::output_shape({.name = "embedding", .kind = layer}, place.shape);
    place.layout = plain_layout(place.samples, place.shape);
    return place;
  }
  std::int64_t token_row(float number) const {
    require(number >= 0 && number < static_cast<float>(vocabulary_),
            "embedding: token {} with a vocabulary of {}", number, vocabulary_);
    return static_cast<std::int64_t>(number) * width_;
  }
  std::int64_t position_row(std::int64_t row) const {
    return (vocabulary_ + row % positions_) * width_;
  }

  std::int64_t vocabulary_;
  std::int64_t width_;
  std::int64_t positions_;
  std::int64_t rows_;  ///< tokens of all samples
};

}  // namespace

std::unique_ptr<Op> make_embedding(const models::Embedding& layer, const Place& input) {
  return std::make_unique<Embedding>(layer, input);
}

}  // namespace unlatch::exec
