// Fully connected layer by oneDNN's matrix product; weights [out, in], then the bias.
#include <dnnl.h>

#include <algorithm>
#include <utility>

#include "exec/dnn_op.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

/// C = beta * C + op(A) op(B), row-major; op(A) is [m, k], op(B) is [k, n].
struct Product {
  bool a_transposed;
  bool b_transposed;
  dnnl_dim_t m, n, k;
  float beta;
};

void multiply(const Product& p, const float* a, const float* b, float* c) {
  const dnnl_status_t status =
      dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, 1.0F, a,
                 p.a_transposed ? p.m : p.k, b, p.b_transposed ? p.k : p.n, p.beta, c, p.n);
  if (status != dnnl_success) {
    throw RunError(
        fmt::format("linear layer: oneDNN's matrix product of {}x{} by {}x{} failed "
                    "with status {}; is memory short?",
                    p.m, p.k, p.k, p.n, static_cast<int>(status)));
  }
}

class Linear : public Op {
 public:
  Linear(const models::Linear& layer, const Place& input)
      : Op(vectors(layer, input)),
        samples_(input.samples),
        in_(input.shape.elements()),
        out_(layer.out_features),
        bias_(layer.bias),
        enter_(input.engine, input.layout, plain_layout(input.samples, input.shape)),
        leave_(input.engine, plain_layout(input.samples, input.shape), input.layout) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    const Tensor x = enter_.moved(std::move(input.tensor), call);
    Tensor y = call.pool.take(output().layout.get_size());
    if (bias_) {
      const float* bias = flat.weights + in_ * out_;
      for (std::int64_t n = 0; n < samples_; ++n)
        std::copy_n(bias, out_, y.data<float>() + n * out_);
    }
    multiply({.a_transposed = false,
              .b_transposed = true,
              .m = samples_,
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
    Tensor result = call.pool.take(static_cast<std::size_t>(samples_ * in_) * sizeof(float));
    multiply({.a_transposed = false,
              .b_transposed = false,
              .m = samples_,
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
              .k = samples_,
              .beta = 1.0F},
             g, kept.tensors[0].data<float>(), flat.gradient);
    if (!bias_) return;
    float* sums = flat.gradient + in_ * out_;
    for (std::int64_t n = 0; n < samples_; ++n) {
      for (std::int64_t o = 0; o < out_; ++o) sums[o] += g[n * out_ + o];
    }
  }

 private:
  static Place vectors(const models::Linear& layer, Place place) {
    place.shape = {layer.out_features, 1, 1};
    place.layout = plain_layout(place.samples, place.shape);
    return place;
  }

  std::int64_t samples_;
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
