// The rule of an optimizer with its constants for one step.
#pragma once

#include <cstdint>
#include <variant>

#include "models/optimizer_rules.h"
#include "models/optimizer_spec.h"
#include "models/trust_rules.h"

namespace unlatch::models {

/// How far an optimizer has come; all that rules know of earlier steps beside the slots.
class StepCount {
 public:
  std::int64_t steps() const { return steps_; }
  /// mu_1 .. mu_t of nadam.
  double product() const { return product_; }
  void advance(const OptimizerSpec& spec);
  /// As after so many calls of advance().
  void set(const OptimizerSpec& spec, std::int64_t steps);

 private:
  std::int64_t steps_ = 0;
  double product_ = 1;
};

template <class Real>
using StepRule =
    std::variant<rules::Step<rules::Sgd<Real>>, rules::Step<rules::Velocity<Real>>,
                 rules::Step<rules::AdaGrad<Real>>, rules::Step<rules::AdaDelta<Real>>,
                 rules::Step<rules::RmsProp<Real>>, rules::Step<rules::Adam<Real>>,
                 rules::Step<rules::AdamW<Real>>, rules::Step<rules::AmsGrad<Real>>,
                 rules::Step<rules::AdaMax<Real>>, rules::Step<rules::NAdam<Real>>,
                 rules::Step<rules::RAdam<Real>>, rules::Lars<Real>, rules::Lamb<Real>>;

/// For the step that `count` has come to, the first being 1. Gradients come times `loss_scale`.
template <class Real>
StepRule<Real> step_rule(const OptimizerSpec& spec, const StepCount& count, double rate,
                         double loss_scale = 1);

}  // namespace unlatch::models
