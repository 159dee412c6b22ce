// Fully connected layer by cuBLAS's matrix product; weights [out, in], then the bias.
#include <utility>

#include "exec/cuda_op.h"

namespace unlatch::exec::cuda {
namespace {

/// C = op(A) op(B), or added to C; row-major, op(A) is [m, k], op(B) is [k, n].
struct Product {
  bool a_transposed;
  bool b_transposed;
  int m, n, k;
  bool adds = false;
};

cudaDataType_t cublas_type(Precision precision) {
  if (precision == Precision::bf16) return CUDA_R_16BF;
  return precision == Precision::fp16 ? CUDA_R_16F : CUDA_R_32F;
}

struct Matrix {
  const void* data;
  cudaDataType_t type;
  int stride;  ///< between columns, as cuBLAS sees it
};

/// C = op(A) op(B) + beta C with sums in float32; the name in C++ stands for two functions.
cublasStatus_t gemm_ex(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                       int n, int k, Matrix a, Matrix b, const float* beta, void* c,
                       cudaDataType_t type_of_c) {
  return cublasGemmEx(handle, op_a, op_b, m, n, k, &one, a.data, a.type, a.stride, b.data, b.type,
                      b.stride, beta, c, type_of_c, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/// cuBLAS is column-major: what it sees of a row-major matrix is the transpose, so the factors
/// change places.
void multiply(Device& device, const Product& p, const void* a, const void* b, void* c,
              Precision of_c) {
  const cudaDataType_t type = cublas_type(device.settings().precision);
  device.call("cublasGemmEx", gemm_ex, device.blas(), p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
              p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p.n, p.m, p.k,
              Matrix{b, type, p.b_transposed ? p.k : p.n},
              Matrix{a, type, p.a_transposed ? p.m : p.k}, p.adds ? &one : &zero, c,
              cublas_type(of_c));
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
    const LayerWeights layer_weights(device, flat.weights, weights());
    const Tensor result = device.take(output().bytes());
    multiply(device,
             {.a_transposed = false, .b_transposed = true, .m = samples_, .n = out_, .k = in_},
             device.read<void>(input.tensor), layer_weights.get(), device.write<void>(result),
             output().precision());
    if (bias_) {
      device.launch(launch_add_bias, output().precision(), flat.weights + weights(),
                    device.write<void>(result), output().channels());
    }
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  /// W needs the input and the output's gradient.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    kept.tensors.push_back(gradient.tensor);
    if (!wants_input) return {};
    const LayerWeights layer_weights(device, flat.weights, weights());
    const Tensor result =
        device.take(static_cast<std::size_t>(samples_) * static_cast<std::size_t>(in_) *
                    bytes_of(output().precision()));
    multiply(device,
             {.a_transposed = false, .b_transposed = false, .m = samples_, .n = in_, .k = out_},
             device.read<void>(gradient.tensor), layer_weights.get(), device.write<void>(result),
             output().precision());
    return {result, true};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    const void* g = device.read<void>(kept.tensors[1]);
    multiply(device,
             {.a_transposed = true,
              .b_transposed = false,
              .m = out_,
              .n = in_,
              .k = samples_,
              .adds = true},
             g, device.read<void>(kept.tensors[0]), flat.gradient, Precision::fp32);
    if (!bias_) return;
    device.launch(launch_add_channel_sums, output().precision(), g, flat.gradient + weights(),
                  output().channels());
  }

 private:
  std::size_t weights() const {
    return static_cast<std::size_t>(in_) * static_cast<std::size_t>(out_);
  }

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
