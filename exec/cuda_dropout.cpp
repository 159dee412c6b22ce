// Dropout by own kernels; the mask is kept as a byte a number.
#include <utility>

#include "exec/cuda_dropout_kernels.h"
#include "exec/cuda_op.h"

namespace unlatch::exec::cuda {
namespace {

class Dropout : public Op {
 public:
  Dropout(const models::Dropout& layer, const Place& input) : Op(input), layer_(layer) {}

  /// The draw is an argument of the kernel, so that no piece with dropout comes again as a graph.
  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const Tensor mask = device.take(output().elements());
    device.launch(launch_draw_mask, models::mask_of(layer_.probability, layer_.number, flat.draw),
                  output().shape.elements(), device.write<std::uint8_t>(mask), output().elements());
    Flow result = masked(std::move(input), mask, device);
    if (kept != nullptr) kept->tensors = {mask};
    return result;
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Kept done = std::exchange(kept, {});
    return wants_input ? masked(std::move(gradient), done.tensors[0], device) : Flow{};
  }

 private:
  Flow masked(Flow flow, const Tensor& mask, Device& device) const {
    const Tensor result = flow.ours ? flow.tensor : device.take(output().bytes());
    const float factor = models::kept_factor(layer_.probability);
    device.launch(launch_masked, output().precision(), factor, device.read<std::uint8_t>(mask),
                  device.read<void>(flow.tensor), device.write<void>(result), output().elements());
    return {result, true};
  }

  models::Dropout layer_;
};

}  // namespace

std::unique_ptr<Op> make_dropout(const models::Dropout& layer, const Place& input) {
  return std::make_unique<Dropout>(layer, input);
}

}  // namespace unlatch::exec::cuda
