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
    const Flow sum =
        body_.forward(flat, shared(input), kept == nullptr ? nullptr : &kept->inner[0], call);
    const Flow beside = shortcut_.forward(shortcut_part(flat), shared(input),
                                          kept == nullptr ? nullptr : &kept->inner[1], call);
    return added(sum, {to_body_.moved(beside.tensor, call), false}, call);
  }

  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                Call& call) const override {
    const Flow sum = body_.backward(flat, kept.inner[0], shared(gradient), wants_input, call);
    const Flow beside = shortcut_.backward(shortcut_part(flat), kept.inner[1],
                                           into_shortcut(gradient, call), wants_input, call);
    return wants_input ? added(sum, beside, call) : Flow{};
  }

  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Flow sum = body_.backward_input(flat, kept.inner[0], shared(gradient), wants_input, call);
    const Flow beside = shortcut_.backward_input(shortcut_part(flat), kept.inner[1],
                                                 into_shortcut(gradient, call), wants_input, call);
    return wants_input ? added(sum, beside, call) : Flow{};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Call& call) const override {
    body_.backward_weight(flat, kept.inner[0], call);
    shortcut_.backward_weight(shortcut_part(flat), kept.inner[1], call);
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
  Flow into_shortcut(const Flow& gradient, Call& call) const {
    return {to_shortcut_.moved(gradient.tensor, call), to_shortcut_.needed()};
  }

  static Flow added(const Flow& one, const Flow& other, Call& call) {
    const Tensor sum = one.ours ? one.tensor : call.pool.copy_of(one.tensor);
    add(other.tensor.data<float>(), sum.data<float>(), sum.bytes() / sizeof(float));
    return {sum, true};
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
