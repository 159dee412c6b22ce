// Fully connected layer by cuBLAS's matrix product; weights [out, in], then the bias.
#include <utility>

#include "exec/cuda_op.h"

namespace unlatch::exec::cuda {
namespace {

/// C = beta * C + op(A) op(B), row-major; op(A) is [m, k], op(B) is [k, n].
struct Product {
  bool a_transposed;
  bool b_transposed;
  int m, n, k;
  float beta;
};

/// cuBLAS is column-major: what it sees of a row-major matrix is the transpose, so the factors
/// change places.
void multiply(Device& device, const Product& p, const float* a, const float* b, float* c) {
  check(cublasSgemm(device.blas(), p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                    p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p.n, p.m, p.k, &one, b,
                    p.b_transposed ? p.k : p.n, a, p.a_transposed ? p.m : p.k, &p.beta, c, p.n),
        "cublasSgemm");
}

class Linear : public Op {
 public:
  Linear(const models::Linear& layer, const Place& input, const Place& output)
      : Op(output),
        samples_(input.samples),
        in_(static_cast<int>(input.shape.elements())),
        out_(layer.out_features),
        bias_(layer.bias) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const Tensor result = device.take(output().bytes());
    if (bias_) {
      launch_fill_rows(device.stream(), flat.weights + weights(), device.write(result),
                       static_cast<std::size_t>(samples_), static_cast<std::size_t>(out_));
    }
    multiply(device,
             {.a_transposed = false,
              .b_transposed = true,
              .m = samples_,
              .n = out_,
              .k = in_,
              .beta = bias_ ? 1.0F : 0.0F},
             device.read(input.tensor), flat.weights, device.write(result));
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  /// W needs the input and the output's gradient.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    kept.tensors.push_back(gradient.tensor);
    if (!wants_input) return {};
    const Tensor result = device.take(static_cast<std::size_t>(samples_) *
                                      static_cast<std::size_t>(in_) * sizeof(float));
    multiply(device,
             {.a_transposed = false,
              .b_transposed = false,
              .m = samples_,
              .n = in_,
              .k = out_,
              .beta = 0.0F},
             device.read(gradient.tensor), flat.weights, device.write(result));
    return {result, true};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    const float* g = device.read(kept.tensors[1]);
    multiply(device,
             {.a_transposed = true,
              .b_transposed = false,
              .m = out_,
              .n = in_,
              .k = samples_,
              .beta = 1.0F},
             g, device.read(kept.tensors[0]), flat.gradient);
    if (!bias_) return;
    launch_add_columns(device.stream(), g, flat.gradient + weights(),
                       static_cast<std::size_t>(samples_), static_cast<std::size_t>(out_));
  }

 private:
  std::ptrdiff_t weights() const { return std::ptrdiff_t{in_} * out_; }

  int samples_;
  int in_;
  int out_;
  bool bias_;
};

}  // namespace

std::unique_ptr<Op> make_linear(const models::Linear& layer, const Place& input) {
  Place output = input;
  output.shape = {layer.out_features, 1, 1};
  return std::make_unique<Linear>(layer, input, output);
}

}  // namespace unlatch::exec::cuda
