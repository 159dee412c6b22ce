// Pooling by cuDNN. Backward of the maximum reads input and output again.
#include <utility>

#include "exec/cuda_op.h"

namespace unlatch::exec::cuda {
namespace {

struct Window {
  cudnnPoolingMode_t mode;
  int height, width, stride, padding;
};

class Pooling : public Op {
 public:
  Pooling(const Window& window, const Place& input, const Place& output)
      : Op(output), input_(input) {
    describe(x_, input);
    describe(y_, output);
    check(cudnnSetPooling2dDescriptor(pooling_.get(), window.mode, CUDNN_PROPAGATE_NAN,
                                      window.height, window.width, window.padding, window.padding,
                                      window.stride, window.stride),
          "cudnnSetPooling2dDescriptor");
  }

  Flow forward(const Flat&, Flow input, Kept* kept, Device& device) const override {
    const Tensor result = device.take(output().bytes());
    device.call("cudnnPoolingForward", cudnnPoolingForward, device.dnn(), pooling_.get(), &one,
                x_.get(), device.read<void>(input.tensor), &zero, y_.get(),
                device.write<void>(result));
    // An average needs neither, but cuDNN wants addresses.
    if (kept != nullptr) kept->tensors = {std::move(input.tensor), result};
    return {result, kept == nullptr};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    const Tensor result = device.take(input_.bytes());
    device.call("cudnnPoolingBackward", cudnnPoolingBackward, device.dnn(), pooling_.get(), &one,
                y_.get(), device.read<void>(done.tensors[1]), y_.get(),
                device.read<void>(gradient.tensor), x_.get(), device.read<void>(done.tensors[0]),
                &zero, x_.get(), device.write<void>(result));
    return {result, true};
  }

 private:
  Place input_;
  TensorDescriptor x_, y_;
  PoolingDescriptor pooling_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool(const models::MaxPool& layer, const Place& input) {
  Place output = input;
  output.shape = models::output_shape({.name = "pool", .kind = layer}, input.shape);
  return std::make_unique<Pooling>(Window{CUDNN_POOLING_MAX_DETERMINISTIC, layer.kernel,
                                          layer.kernel, layer.stride, layer.padding},
                                   input, output);
}

std::unique_ptr<Op> make_global_average_pool(const Place& input) {
  Place output = input;
  output.shape = {input.shape.channels, 1, 1};
  return std::make_unique<Pooling>(Window{CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
                                          input.shape.height, input.shape.width, 1, 0},
                                   input, output);
}

}  // namespace unlatch::exec::cuda
