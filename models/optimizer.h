// Optimizer: plain SGD, momentum, Nesterov and SUM in velocity form, on one stage's flat weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unlatch::models {

/// v <- b v + g; x <- x - rate [ (1 - s (1-b)) v + s g ], g including decay * x of the weights at
/// update time. s = 0 heavy ball, s = 1 Nesterov, b = 0 SGD.
/// (Stochastic unified momentum, Xu et al., CVPR 2020, eq. 3, at a constant rate.)
struct OptimizerSpec {
  std::string name = "sgd";  ///< sgd, momentum, nesterov, sum
  double momentum = 0;       ///< b, 0 <= b < 1
  double s = 0;
  double weight_decay = 0;

  /// "sgd", "momentum:momentum=0.9", "nesterov:momentum=0.9", "sum:momentum=0.9,s=1"; each also
  /// takes "decay=0", the weight decay. The values here are the defaults.
  /// Throws Error with the closest valid names and keys.
  static OptimizerSpec parse(std::string_view text);
};

/// What `steps` more steps at this rate would take of the weights for each unit of velocity, if all
/// gradients to come were 0 and nothing decayed.
double coast_factor(const OptimizerSpec& spec, int steps, double rate);

/// State for one stage; Real is float or double.
template <class Real>
class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, std::size_t parameters);
  /// Steps the weights in place. The gradient is left as it is.
  void step(std::span<Real> weights, std::span<const Real> gradient, double rate);
  /// The weights after that many more steps at this rate, if all gradients to come were 0 and
  /// nothing decayed. In place.
  void coast(std::span<Real> weights, int steps, double rate) const;

  /// All that a later step depends on but the weights: `slots` numbers a parameter, one slot behind
  /// the other, zeros at first; and how many steps were taken.
  std::span<Real> state() { return state_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  std::size_t bytes() const { return state_.size() * sizeof(Real); }

 private:
  OptimizerSpec spec_;
  std::vector<Real> state_;  ///< the velocity; empty for plain SGD
  std::int64_t steps_ = 0;
};

extern template class Optimizer<float>;
extern template class Optimizer<double>;

/// Learning rate as a function of the batch index of the gradient.
struct RateSchedule {
  enum class Kind { constant, linear, step, cosine } kind = Kind::constant;
  double rate = 0.1;
  std::vector<int> at{};  ///< step: epochs after which the rate is multiplied by factor
  double factor = 0.1;    ///< step

  /// "constant", "linear" (to 0 at the end), "step:at=60/80,factor=0.1", "cosine".
  static RateSchedule parse(std::string_view text, double rate);
  /// Rate of the gradient of one batch of `batches` in all, `per_epoch` an epoch.
  double at_batch(int batch, int batches, int per_epoch) const;
};

}  // namespace unlatch::models
