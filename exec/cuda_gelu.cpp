// GELU by an own kernel, in the exact form with erf.
#include <utility>

#include "exec/cuda_op.h"
#include "exec/cuda_sequence_kernels.h"

namespace unlatch::exec::cuda {
namespace {

class Gelu : public Op {
 public:
  explicit Gelu(const Place& input) : Op(input) {}

  Flow forward(const Flat&, Flow input, Kept* kept, Device& device) const override {
    const bool in_place = input.ours && kept == nullptr;
    const Tensor result = in_place ? input.tensor : device.take(output().bytes());
    device.launch(launch_gelu, output().precision(), device.read<void>(input.tensor),
                  device.write<void>(result), output().elements());
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    const Tensor result = gradient.ours ? gradient.tensor : device.take(output().bytes());
    device.launch(launch_gelu_gradient, output().precision(), device.read<void>(done.tensors[0]),
                  device.read<void>(gradient.tensor), device.write<void>(result),
                  output().elements());
    return {result, true};
  }
};

}  // namespace

std::unique_ptr<Op> make_gelu(const Place& input) { return std::make_unique<Gelu>(input); }

}  // namespace unlatch::exec::cuda
