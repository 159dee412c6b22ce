// Optimizer: the steps of one stage's flat weights on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/optimizer_spec.h"
#include "models/optimizer_step.h"
#include "models/parameter_tensors.h"

namespace unlatch::models {

/// State for one stage; Real is float or double.
template <class Real>
class Optimizer {
 public:
  /// The tensors follow each other and are all of the weights.
  Optimizer(const OptimizerSpec& spec, std::vector<ParameterTensor> tensors);
  /// Weights that are one adapted tensor.
  Optimizer(const OptimizerSpec& spec, std::size_t parameters)
      : Optimizer(spec, std::vector{ParameterTensor{0, parameters, true}}) {}

  /// Steps the weights in place. The gradient is left as it is.
  void step(std::span<Real> weights, std::span<const Real> gradient, double rate);
  /// The weights after that many more steps at this rate, if all gradients to come were 0 and
  /// nothing decayed. In place. Throws Error unless the optimizer coasts().
  void coast(std::span<Real> weights, int steps, double rate) const;

  /// All that a later step depends on but the weights: slots() numbers a parameter, one slot behind
  /// the other, zeros at first; and how many steps were taken.
  std::span<Real> state() { return state_; }
  std::int64_t steps() const { return count_.steps(); }
  void set_steps(std::int64_t steps) { count_.set(spec_, steps); }
  std::size_t bytes() const { return state_.size() * sizeof(Real); }

 private:
  rules::Slots<Real> slots_of(std::size_t parameter) {
    return {state_.data() + parameter, parameters_};
  }
  template <class Rule>
  void step_by(const Rule& rule, std::span<Real> weights, std::span<const Real> gradient);
  template <class Rule>
  void step_tensors_by(const Rule& rule, std::span<Real> weights, std::span<const Real> gradient);

  OptimizerSpec spec_;
  std::vector<ParameterTensor> tensors_;
  std::size_t parameters_;
  std::vector<Real> state_;
  StepCount count_;
};

extern template class Optimizer<float>;
extern template class Optimizer<double>;

}  // namespace unlatch::models
