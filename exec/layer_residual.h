// ResidualOp: y = body(x) + shortcut(x), an empty shortcut being the identity.
#pragma once

#include <utility>

#include "exec/layer_chain.h"

namespace unlatch::exec {

/// Joint, made of the places where the two branches end, has added(sum, beside, call), which gives
/// the sum where the body ends, into_shortcut(gradient, call), and summed_gradients(one, other,
/// call) of the input.
template <class Op, class Joint>
class ResidualOp : public Op {
 public:
  using Chain = LayerChain<Op>;
  using Call = typename Op::Call;

  ResidualOp(Chain body, Chain shortcut)
      : Op(body.output()),
        joint_(body.output(), shortcut.output()),
        body_(std::move(body)),
        shortcut_(std::move(shortcut)) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    if (kept != nullptr) kept->inner.resize(2);
    const Flow sum =
        body_.forward(flat, shared(input), kept == nullptr ? nullptr : &kept->inner[0], call);
    const Flow beside = shortcut_.forward(shortcut_part(flat), shared(input),
                                          kept == nullptr ? nullptr : &kept->inner[1], call);
    return joint_.added(sum, beside, call);
  }

  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                Call& call) const override {
    const Flow sum = body_.backward(flat, kept.inner[0], shared(gradient), wants_input, call);
    const Flow beside =
        shortcut_.backward(shortcut_part(flat), kept.inner[1],
                           joint_.into_shortcut(shared(gradient), call), wants_input, call);
    return wants_input ? joint_.summed_gradients(sum, beside, call) : Flow{};
  }

  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Flow sum = body_.backward_input(flat, kept.inner[0], shared(gradient), wants_input, call);
    const Flow beside =
        shortcut_.backward_input(shortcut_part(flat), kept.inner[1],
                                 joint_.into_shortcut(shared(gradient), call), wants_input, call);
    return wants_input ? joint_.summed_gradients(sum, beside, call) : Flow{};
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

  Joint joint_;
  Chain body_;
  Chain shortcut_;
};

}  // namespace unlatch::exec
