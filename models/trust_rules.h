// The rules of LARS and LAMB, whose steps depend on norms of whole tensors; plain C++ that nvcc
// compiles for the device too. First every parameter is measured, then a tensor has its trust
// ratio, then every parameter steps. Tensors that are not adapted (one dimension: biases, gamma and
// beta of norms) have the ratio 1 and no decay, as the papers' runs and apex's users leave them
// out.
#pragma once

#include "models/optimizer_rules.h"

namespace unlatch::models::rules {

/// v <- b v + r (g + decay w); w <- w - rate v, with the trust ratio
/// r = trust |w| / (|g| + decay |w| + epsilon) of a tensor, 1 where |w| or |g| is 0. You et al.
/// 2017 (arXiv 1708.03888), eq. 6 and algorithm 1, with the rate outside of the velocity as in
/// torch.optim.SGD and epsilon as in apex's LARC.
template <class R>
struct Lars {
  using Real = R;
  R rate;
  R decay;
  R unscale;
  R momentum;  ///< 0: no velocity is kept
  R trust;
  R epsilon;

  /// The number whose norm the ratio takes beside that of the weights.
  UNLATCH_HOST_DEVICE R measure(R, R gradient, bool, Slots<R>) const { return unscale * gradient; }
  UNLATCH_HOST_DEVICE R ratio(double weights, double measured) const {
    if (weights == 0 || measured == 0) return 1;
    return static_cast<R>(trust * weights / (measured + decay * weights + epsilon));
  }
  UNLATCH_HOST_DEVICE void apply(R& weight, R gradient, bool adapted, R ratio,
                                 Slots<R> slots) const {
    const R g = ratio * (unscale * gradient + (adapted ? decay : 0) * weight);
    if (momentum == 0) {
      weight -= rate * g;
      return;
    }
    slots[0] = momentum * slots[0] + g;
    weight -= rate * slots[0];
  }
};

/// d as Adam's, plus decay w; w <- w - rate r d, with the trust ratio r = |w| / |d| of a tensor, 1
/// where either is 0. You et al., ICLR 2020 (arXiv 1904.00962), algorithm 2, with phi(z) = z.
template <class R>
struct Lamb {
  using Real = R;
  R rate;
  R decay;
  R unscale;
  Adam<R> adam;

  UNLATCH_HOST_DEVICE R measure(R weight, R gradient, bool adapted, Slots<R> slots) const {
    adam.absorb(unscale * gradient, slots);
    return direction(weight, adapted, slots);
  }
  UNLATCH_HOST_DEVICE R ratio(double weights, double measured) const {
    return weights == 0 || measured == 0 ? R{1} : static_cast<R>(weights / measured);
  }
  UNLATCH_HOST_DEVICE void apply(R& weight, R, bool adapted, R ratio, Slots<R> slots) const {
    weight -= rate * ratio * direction(weight, adapted, slots);
  }

 private:
  UNLATCH_HOST_DEVICE R direction(R weight, bool adapted, Slots<R> slots) const {
    return adam.corrected(slots[0], slots[1]) + (adapted ? decay : 0) * weight;
  }
};

}  // namespace unlatch::models::rules
