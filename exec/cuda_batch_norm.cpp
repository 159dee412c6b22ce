// Batch normalisation by cuDNN; flat parameters gamma then beta, statistics mean then variance,
// all float32 whatever the precision of the tensors.
#include <utility>

#include "exec/cuda_op.h"

namespace unlatch::exec::cuda {
namespace {

constexpr cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL;  // the persistent one may vary

class BatchNorm : public Op {
 public:
  BatchNorm(const models::BatchNorm& layer, const Place& input)
      : Op(input), layer_(layer), channels_(input.shape.channels) {
    describe(x_, input);
    describe_channels(vector_, channels_);
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const Tensor batch = device.take(2 * vector_bytes());  // its mean and inverse deviation
    const Tensor result = device.take(output().bytes());
    float* saved = device.write(batch);
    float* running = flat.statistics;
    device.call("cudnnBatchNormalizationForwardTraining", cudnnBatchNormalizationForwardTraining,
                device.dnn(), mode, &one, &zero, x_.get(), device.read<void>(input.tensor),
                x_.get(), device.write<void>(result), vector_.get(), flat.weights,
                flat.weights + channels_, layer_.momentum, running,
                running == nullptr ? nullptr : running + channels_, layer_.epsilon, saved,
                saved + channels_);
    if (kept != nullptr) kept->tensors = {std::move(input.tensor), batch};
    return {result, true};
  }

  /// The gradients of scale and shift come out with that of the input, so that W only adds them.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Tensor result = device.take(output().bytes());
    const Tensor sums = device.take(2 * vector_bytes());
    const float* saved = device.read(kept.tensors[1]);
    device.call("cudnnBatchNormalizationBackward", cudnnBatchNormalizationBackward, device.dnn(),
                mode, &one, &zero, &one, &zero, x_.get(), device.read<void>(kept.tensors[0]),
                x_.get(), device.read<void>(gradient.tensor), x_.get(), device.write<void>(result),
                vector_.get(), flat.weights, device.write(sums), device.write(sums) + channels_,
                layer_.epsilon, saved, saved + channels_);
    kept.tensors = {sums};
    return wants_input ? Flow{result, true} : Flow{};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    device.launch(launch_add, Precision::fp32, device.read(kept.tensors[0]), flat.gradient,
                  2 * static_cast<std::size_t>(channels_));
  }

 private:
  std::size_t vector_bytes() const { return static_cast<std::size_t>(channels_) * sizeof(float); }

  models::BatchNorm layer_;
  int channels_;
  TensorDescriptor x_, vector_;
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(const models::BatchNorm& layer, const Place& input) {
  return std::make_unique<BatchNorm>(layer, input);
}

}  // namespace unlatch::exec::cuda
