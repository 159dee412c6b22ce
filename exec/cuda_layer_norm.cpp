// Layer normalisation by own kernels; flat parameters gamma then beta.
#include <utility>

#include "exec/cuda_op.h"
#include "exec/cuda_sequence_kernels.h"

namespace unlatch::exec::cuda {
namespace {

class LayerNorm : public Op {
 public:
  LayerNorm(const models::LayerNorm& layer, const Place& input)
      : Op(input),
        epsilon_(static_cast<float>(layer.epsilon)),
        shape_{input.rows(), static_cast<std::int32_t>(input.shape.features())} {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const Tensor result = device.take(output().bytes());
    const Tensor norms = device.take(two_a_row());
    auto* mean = device.write(norms);
    device.launch(launch_layer_norm, output().precision(), device.read<void>(input.tensor),
                  flat.weights, epsilon_, mean, mean + shape_.rows, device.write<void>(result),
                  shape_);
    if (kept != nullptr) kept->tensors = {std::move(input.tensor), norms};
    return {result, true};
  }

  /// The gradients of gamma and beta come out here, as batch norm's do; W only adds them.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Tensor result = gradient.ours ? gradient.tensor : device.take(output().bytes());
    const Tensor means = device.take(two_a_row());
    const Tensor sums = device.take(parameters() * sizeof(float));
    const float* norms = device.read(kept.tensors[1]);
    device.launch(launch_layer_norm_gradient, output().precision(),
                  device.read<void>(kept.tensors[0]), device.read<void>(gradient.tensor),
                  flat.weights, RowNorms{norms, norms + shape_.rows}, device.write(means),
                  device.write(sums), device.write<void>(result), shape_);
    kept.tensors = {sums};
    return wants_input ? Flow{result, true} : Flow{};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    device.launch(launch_accumulate, Precision::fp32, device.read<void>(kept.tensors[0]),
                  flat.gradient, parameters());
  }

 private:
  std::size_t two_a_row() const {
    return 2 * static_cast<std::size_t>(shape_.rows) * sizeof(float);
  }
  std::size_t parameters() const { return 2 * static_cast<std::size_t>(shape_.size); }

  float epsilon_;
  RowShape shape_;
};

}  // namespace

std::unique_ptr<Op> make_layer_norm(const models::LayerNorm& layer, const Place& input) {
  return std::make_unique<LayerNorm>(layer, input);
}

}  // namespace unlatch::exec::cuda
