// ReLU by an own kernel, in place where nobody else reads the input.
#include <utility>

#include "exec/cuda_op.h"

namespace unlatch::exec::cuda {
namespace {

class Relu : public Op {
 public:
  explicit Relu(const Place& input) : Op(input) {}

  Flow forward(const Flat&, Flow input, Kept* kept, Device& device) const override {
    const Tensor result = input.ours ? input.tensor : device.take(output().bytes());
    device.launch(launch_relu, output().precision(), device.read<void>(input.tensor),
                  device.write<void>(result), output().elements());
    if (kept == nullptr) return {result, true};
    kept->tensors = {result};
    return {result, false};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    const Tensor result = gradient.ours ? gradient.tensor : device.take(output().bytes());
    device.launch(launch_relu_gradient, output().precision(), device.read<void>(done.tensors[0]),
                  device.read<void>(gradient.tensor), device.write<void>(result),
                  output().elements());
    return {result, true};
  }
};

}  // namespace

std::unique_ptr<Op> make_relu(const Place& input) { return std::make_unique<Relu>(input); }

}  // namespace unlatch::exec::cuda
