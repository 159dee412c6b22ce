// Fully connected layer by oneDNN's matrix product; weights [out, in], then the bias. A row is a
// sample, or a token of one.
#include <algorithm>
#include <utility>

#include "exec/dnn_op.h"
#include "exec/dnn_product.h"

namespace unlatch::exec {
namespace {

class Linear : public Op {
 public:
  Linear(const models::Linear& layer, const Place& input)
      : Op(vectors(layer, input)),
        rows_(std::int64_t{input.samples} * input.shape.rows()),
        in_(input.shape.features()),
        out_(layer.out_features),
        bias_(layer.bias),
        enter_(input.engine, input.layout, plain_layout(input.samples, input.shape)),
        leave_(input.engine, plain_layout(input.samples, input.shape), input.layout) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    const Tensor x = enter_.moved(std::move(input.tensor), call);
    Tensor y = call.pool.take(output().layout.get_size());
    if (bias_) {
      const float* bias = flat.weights + in_ * out_;
      for (std::int64_t n = 0; n < rows_; ++n) std::copy_n(bias, out_, y.data<float>() + n * out_);
    }
    multiply({.a_transposed = false,
              .b_transposed = true,
              .m = rows_,
              .n = out_,
              .k = in_,
              .beta = bias_ ? 1.0F : 0.0F},
             x.data<float>(), flat.weights, y.data<float>());
    if (kept != nullptr) kept->tensors = {x};
    return {std::move(y), true};
  }

  /// W needs the input and the output's gradient; the latter is handed on to nobody, so that it
  /// stays as it is.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    kept.tensors.push_back(gradient.tensor);
    if (!wants_input) return {};
    Tensor result = call.pool.take(static_cast<std::size_t>(rows_ * in_) * sizeof(float));
    multiply({.a_transposed = false,
              .b_transposed = false,
              .m = rows_,
              .n = in_,
              .k = out_,
              .beta = 0.0F},
             gradient.tensor.data<float>(), flat.weights, result.data<float>());
    return {leave_.moved(std::move(result), call), true};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Call&) const override {
    const float* g = kept.tensors[1].data<float>();
    multiply({.a_transposed = true,
              .b_transposed = false,
              .m = out_,
              .n = in_,
              .k = rows_,
              .beta = 1.0F},
             g, kept.tensors[0].data<float>(), flat.gradient);
    if (!bias_) return;
    float* sums = flat.gradient + in_ * out_;
    for (std::int64_t n = 0; n < rows_; ++n) {
      for (std::int64_t o = 0; o < out_; ++o) sums[o] += g[n * out_ + o];
    }
  }

 private:
  static Place vectors(const models::Linear& layer, Place place) {
    place.shape = models::output_shape({.name = "linear", .kind = layer}, place.shape);
    place.layout = plain_layout(place.samples, place.shape);
    return place;
  }

  std::int64_t rows_;
  std::int64_t in_;
  std::int64_t out_;
  bool bias_;
  Reorder enter_;  ///< from the layout handed over to [samples, features]
  Reorder leave_;
};

}  // namespace

std::unique_ptr<Op> make_linear(const models::Linear& layer, const Place& input) {
  return std::make_unique<Linear>(layer, input);
}

}  // namespace unlatch::exec
