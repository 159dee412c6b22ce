// The optimizers' rules, one parameter at a time; plain C++ that nvcc compiles for the device too.
// A rule turns a gradient g into the direction that the rate times is taken off the weight, and
// keeps what it must know of earlier gradients in slots. b1, b2 are beta1, beta2; t counts steps
// from 1; a bias correction is 1 - b^t. Constants are those of one step (models/optimizer_step.h).
#pragma once

#include <cmath>
#include <cstddef>

#include "models/host_device.h"

namespace unlatch::models::rules {

/// The state of one parameter: slot s lies `stride` numbers behind slot s - 1.
template <class R>
struct Slots {
  R* first;
  std::size_t stride;
  UNLATCH_HOST_DEVICE R& operator[](int slot) const {
    return first[static_cast<std::size_t>(slot) * stride];
  }
};

/// kept old + (1 - kept) now. The rest, 1 - kept, is rounded by itself: that of 0.9999 rounded to
/// float is off by 1.7e-4 of itself. Where it is the smaller one, the rest alone forms the mean: a
/// rounded kept and a rounded rest do not add up to 1.
template <class R>
struct Mean {
  R kept;
  R rest;
  UNLATCH_HOST_DEVICE R operator()(R old, R now) const {
    return kept < rest ? kept * old + rest * now : old + rest * (now - old);
  }
};

/// d = g.
template <class R>
struct Sgd {
  using Real = R;
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R>) const { return g; }
};

/// v <- b v + g; d = (1 - s (1 - b)) v + s g. s = 0 heavy ball, s = 1 Nesterov: torch.optim.SGD's
/// velocity form, without dampening. (Stochastic unified momentum, Xu et al., CVPR 2020, eq. 3, at
/// a constant rate.)
template <class R>
struct Velocity {
  using Real = R;
  R momentum;     ///< b
  R of_velocity;  ///< 1 - s (1 - b)
  R of_gradient;  ///< s
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    slots[0] = momentum * slots[0] + g;
    return of_velocity * slots[0] + of_gradient * g;
  }
};

/// n <- n + g^2; d = g / (sqrt(n) + epsilon), over 1 + (t - 1) lr_decay. Duchi et al., JMLR 2011,
/// section 1.1 with diagonal matrices; epsilon outside the root and lr_decay as torch.optim.Adagrad
/// has them.
template <class R>
struct AdaGrad {
  using Real = R;
  R epsilon;
  R share;  ///< 1 / (1 + (t - 1) lr_decay)
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    slots[0] += g * g;
    return share * g / (std::sqrt(slots[0]) + epsilon);
  }
};

/// n <- mean of g^2; d = sqrt(u + epsilon) / sqrt(n + epsilon) g; u <- mean of d^2. Zeiler 2012,
/// arXiv 1212.5701, algorithm 1, whose rate is 1.
template <class R>
struct AdaDelta {
  using Real = R;
  Mean<R> mean;  ///< by rho
  R epsilon;
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    slots[0] = mean(slots[0], g * g);
    const R d = std::sqrt(slots[1] + epsilon) / std::sqrt(slots[0] + epsilon) * g;
    slots[1] = mean(slots[1], d * d);
    return d;
  }
};

/// n <- mean of g^2; d = g / (sqrt(n) + epsilon); with momentum d <- v <- b v + d; centered: n less
/// the square of the mean of g. Hinton, lecture 6e of Neural Networks for Machine Learning, 2012;
/// centered: Graves 2013, arXiv 1308.0850, eq. 38 to 41; epsilon outside the root as in
/// torch.optim.RMSprop.
template <class R>
struct RmsProp {
  using Real = R;
  Mean<R> mean;  ///< by alpha
  R epsilon;
  R momentum;
  int velocity_slot;  ///< 0: none
  int mean_slot;      ///< 0: not centered
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    slots[0] = mean(slots[0], g * g);
    R square = slots[0];
    if (mean_slot != 0) {
      R& center = slots[mean_slot];
      center = mean(center, g);
      square = square < center * center ? 0 : square - center * center;  // below only by rounding
    }
    const R d = g / (std::sqrt(square) + epsilon);
    if (velocity_slot == 0) return d;
    R& velocity = slots[velocity_slot];
    velocity = momentum * velocity + d;
    return velocity;
  }
};

/// m <- mean of g by b1; v <- mean of g^2 by b2; d = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) +
/// epsilon). Kingma and Ba, ICLR 2015 (arXiv 1412.6980), algorithm 1.
template <class R>
struct Adam {
  using Real = R;
  Mean<R> mean;    ///< by b1
  Mean<R> square;  ///< by b2
  R epsilon;
  R bias1;       ///< 1 - b1^t
  R root_bias2;  ///< sqrt(1 - b2^t)
  UNLATCH_HOST_DEVICE void absorb(R g, Slots<R> slots) const {
    slots[0] = mean(slots[0], g);
    slots[1] = square(slots[1], g * g);
  }
  UNLATCH_HOST_DEVICE R corrected(R m, R v) const {
    return m / bias1 / (std::sqrt(v) / root_bias2 + epsilon);
  }
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    absorb(g, slots);
    return corrected(slots[0], slots[1]);
  }
};

/// Adam with the weight decay decoupled from the gradient: d + decay w. Loshchilov and Hutter, ICLR
/// 2019 (arXiv 1711.05101), algorithm 2; the decay scales with the rate as in torch.optim.AdamW.
template <class R>
struct AdamW : Adam<R> {
  static constexpr bool decoupled = true;
};

/// Adam over the largest v so far. Reddi et al., ICLR 2018 (arXiv 1904.09237), algorithm 2, with
/// Adam's bias corrections as torch.optim.Adam(amsgrad=True) has them.
template <class R>
struct AmsGrad : Adam<R> {
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    this->absorb(g, slots);
    slots[2] = slots[2] < slots[1] ? slots[1] : slots[2];
    return this->corrected(slots[0], slots[2]);
  }
};

/// m <- mean of g; u <- max(b2 u, |g| + epsilon); d = m / (1 - b1^t) / u. Kingma and Ba, ICLR 2015,
/// algorithm 2; epsilon as in torch.optim.Adamax.
template <class R>
struct AdaMax {
  using Real = R;
  Mean<R> mean;
  R beta2;
  R epsilon;
  R bias1;
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    slots[0] = mean(slots[0], g);
    const R kept = beta2 * slots[1];
    const R now = std::fabs(g) + epsilon;
    slots[1] = kept < now ? now : kept;
    return slots[0] / bias1 / slots[1];
  }
};

/// m, v as Adam's; d = (of_gradient g + of_mean m) / (sqrt(v / (1 - b2^t)) + epsilon), with
/// mu_t = b1 (1 - 0.96^(t momentum_decay) / 2), of_gradient = (1 - mu_t) / (1 - mu_1..mu_t) and
/// of_mean = mu_t+1 / (1 - mu_1..mu_t+1). Dozat, ICLR workshop 2016, algorithm 8, as
/// torch.optim.NAdam has it.
template <class R>
struct NAdam {
  using Real = R;
  Mean<R> mean;
  Mean<R> square;
  R epsilon;
  R root_bias2;
  R of_gradient;
  R of_mean;
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    slots[0] = mean(slots[0], g);
    slots[1] = square(slots[1], g * g);
    return (of_gradient * g + of_mean * slots[0]) / (std::sqrt(slots[1]) / root_bias2 + epsilon);
  }
};

/// m, v as Adam's; with r_inf = 2 / (1 - b2) - 1 and r_t = r_inf - 2 t b2^t / (1 - b2^t):
/// d = m / (1 - b1^t), and where r_t > 5 that times sqrt(1 - b2^t) / (sqrt(v) + epsilon) and the
/// rectification sqrt((r_t - 4)(r_t - 2) r_inf / ((r_inf - 4)(r_inf - 2) r_t)). Liu et al., ICLR
/// 2020 (arXiv 1908.03265), algorithm 2; epsilon and the bound of 5 (the paper's is 4) as in
/// torch.optim.RAdam.
template <class R>
struct RAdam {
  using Real = R;
  Mean<R> mean;
  Mean<R> square;
  R epsilon;
  R bias1;
  R rectified;  ///< rectification times sqrt(1 - b2^t); 0: not yet
  UNLATCH_HOST_DEVICE R direction(R g, Slots<R> slots) const {
    slots[0] = mean(slots[0], g);
    slots[1] = square(slots[1], g * g);
    const R m = slots[0] / bias1;
    return rectified == 0 ? m : m * rectified / (std::sqrt(slots[1]) + epsilon);
  }
};

/// A rule with what all have: w <- w - rate d, from the gradient plus decay w, or d plus decay w
/// where the rule decouples it.
template <class Rule>
struct Step {
  using Real = typename Rule::Real;
  Real rate;
  Real decay;
  Real unscale;  ///< takes a loss scale off the gradient
  [[no_unique_address]] Rule rule;

  UNLATCH_HOST_DEVICE void apply(Real& weight, Real gradient, Slots<Real> slots) const {
    if constexpr (requires { Rule::decoupled; }) {
      const Real d = rule.direction(unscale * gradient, slots);
      weight -= rate * (d + decay * weight);
    } else {
      weight -= rate * rule.direction(unscale * gradient + decay * weight, slots);
    }
  }
};

}  // namespace unlatch::models::rules
