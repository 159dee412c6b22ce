// Residual block: y = body(x) + shortcut(x), an empty shortcut being the identity.
#include <utility>

#include "exec/dnn_chain.h"

namespace unlatch::exec {
namespace {

void add(const float* x, float* sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

class Residual : public Op {
 public:
  Residual(Chain body, Chain shortcut)
      : Op(body.output()),
        body_(std::move(body)),
        shortcut_(std::move(shortcut)),
        to_body_(output().engine, shortcut_.output().layout, output().layout),
        to_shortcut_(output().engine, output().layout, shortcut_.output().layout) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    if (kept != nullptr) kept->inner.resize(2);
    const Flow shared{input.tensor, false};
    Flow sum = body_.forward(flat, shared, kept == nullptr ? nullptr : &kept->inner[0], call);
    const Flow beside = shortcut_.forward(shortcut_part(flat), shared,
                                          kept == nullptr ? nullptr : &kept->inner[1], call);
    add_into(sum, to_body_.moved(beside.tensor, call), call);
    return sum;
  }

  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                Call& call) const override {
    const Flow shared{gradient.tensor, false};
    Flow sum = body_.backward(flat, kept.inner[0], shared, wants_input, call);
    const Flow beside = shortcut_.backward(
        shortcut_part(flat), kept.inner[1],
        {to_shortcut_.moved(gradient.tensor, call), to_shortcut_.needed()}, wants_input, call);
    if (!wants_input) return {};
    add_into(sum, beside.tensor, call);
    return sum;
  }

 private:
  Flat shortcut_part(Flat flat) const {
    flat.weights += body_.weights();
    if (flat.gradient != nullptr) flat.gradient += body_.weights();
    if (flat.statistics != nullptr) flat.statistics += body_.statistics();
    return flat;
  }

  static void add_into(Flow& sum, const Tensor& other, Call& call) {
    if (!sum.ours) sum = {call.pool.copy_of(sum.tensor), true};
    add(other.data<float>(), sum.tensor.data<float>(), sum.tensor.bytes() / sizeof(float));
  }

  Chain body_;
  Chain shortcut_;
  Reorder to_body_;  ///< when the two branches end in different layouts
  Reorder to_shortcut_;
};

}  // namespace

std::unique_ptr<Op> make_residual(const models::Residual& layer, const Place& input) {
  return std::make_unique<Residual>(Chain(layer.body, input), Chain(layer.shortcut, input));
}

}  // namespace unlatch::exec
