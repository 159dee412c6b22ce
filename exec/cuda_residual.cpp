// Residual block: y = body(x) + shortcut(x), an empty shortcut being the identity.
#include <utility>

#include "exec/cuda_op.h"
#include "exec/layer_chain.h"

namespace unlatch::exec::cuda {
namespace {

using Chain = LayerChain<Op>;

class Residual : public Op {
 public:
  Residual(Chain body, Chain shortcut)
      : Op(body.output()), body_(std::move(body)), shortcut_(std::move(shortcut)) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    if (kept != nullptr) kept->inner.resize(2);
    const Flow sum =
        body_.forward(flat, shared(input), kept == nullptr ? nullptr : &kept->inner[0], device);
    const Flow beside = shortcut_.forward(shortcut_part(flat), shared(input),
                                          kept == nullptr ? nullptr : &kept->inner[1], device);
    return added(sum, beside, device);
  }

  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                Device& device) const override {
    const Flow sum = body_.backward(flat, kept.inner[0], shared(gradient), wants_input, device);
    const Flow beside = shortcut_.backward(shortcut_part(flat), kept.inner[1], shared(gradient),
                                           wants_input, device);
    return wants_input ? added(sum, beside, device) : Flow{};
  }

  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Flow sum =
        body_.backward_input(flat, kept.inner[0], shared(gradient), wants_input, device);
    const Flow beside = shortcut_.backward_input(shortcut_part(flat), kept.inner[1],
                                                 shared(gradient), wants_input, device);
    return wants_input ? added(sum, beside, device) : Flow{};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    body_.backward_weight(flat, kept.inner[0], device);
    shortcut_.backward_weight(shortcut_part(flat), kept.inner[1], device);
  }

 private:
  Flat shortcut_part(Flat flat) const {
    if (flat.weights != nullptr) flat.weights += body_.weights();
    if (flat.gradient != nullptr) flat.gradient += body_.weights();
    if (flat.statistics != nullptr) flat.statistics += body_.statistics();
    return flat;
  }

  /// Both branches read it.
  static Flow shared(const Flow& flow) { return {flow.tensor, false}; }

  static Flow added(const Flow& one_branch, const Flow& other, Device& device) {
    const Tensor sum = one_branch.ours ? one_branch.tensor : device.copy_of(one_branch.tensor);
    launch_add(device.stream(), device.read(other.tensor), device.write(sum),
               sum.bytes() / sizeof(float));
    check_launches();
    return {sum, true};
  }

  Chain body_;
  Chain shortcut_;
};

}  // namespace

std::unique_ptr<Op> make_residual(const models::Residual& layer, const Place& input) {
  return std::make_unique<Residual>(Chain(layer.body, input), Chain(layer.shortcut, input));
}

}  // namespace unlatch::exec::cuda
