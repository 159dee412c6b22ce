// Fully connected layer by cuBLAS's matrix product; weights [out, in], then the bias. A row is a
// sample, or a token of one.
#include <utility>

#include "exec/cuda_product.h"

namespace unlatch::exec::cuda {
namespace {

class Linear : public Op {
 public:
  Linear(const models::Linear& layer, const Place& input, const Place& output)
      : Op(output),
        rows_(input.rows()),
        in_(static_cast<int>(input.shape.features())),
        out_(layer.out_features),
        bias_(layer.bias) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const LayerWeights layer_weights(device, flat.weights, weights());
    const Tensor result = device.take(output().bytes());
    multiply(device, {.a_transposed = false, .b_transposed = true, .m = rows_, .n = out_, .k = in_},
             device.read<void>(input.tensor), layer_weights.get(), device.write<void>(result),
             output().precision());
    if (bias_) {
      device.launch(launch_add_bias, output().precision(), flat.weights + weights(),
                    device.write<void>(result), biased());
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
        device.take(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(in_) *
                    bytes_of(output().precision()));
    multiply(device,
             {.a_transposed = false, .b_transposed = false, .m = rows_, .n = in_, .k = out_},
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
              .k = rows_,
              .adds = true},
             g, device.read<void>(kept.tensors[0]), flat.gradient, Precision::fp32);
    if (!bias_) return;
    device.launch(launch_add_channel_sums, output().precision(), g, flat.gradient + weights(),
                  biased());
  }

 private:
  ChannelShape biased() const { return {rows_, out_, 1}; }
  std::size_t weights() const {
    return static_cast<std::size_t>(in_) * static_cast<std::size_t>(out_);
  }

  int rows_;
  int in_;
  int out_;
  bool bias_;
};

}  // namespace

std::unique_ptr<Op> make_linear(const models::Linear& layer, const Place& input) {
  Place output = input;
  output.shape = models::output_shape({.name = "linear", .kind = layer}, input.shape);
  return std::make_unique<Linear>(layer, input, output);
}

}  // namespace unlatch::exec::cuda
