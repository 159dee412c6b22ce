#include "models/optimizer_step.h"

#include <cmath>

#include "schedules/error.h"

namespace unlatch::models {
namespace {

double nadam_mu(const OptimizerSpec& spec, std::int64_t step) {
  const double at = static_cast<double>(step) * spec.momentum_decay;
  return spec.beta1 * (1 - 0.5 * std::pow(0.96, at));
}

/// What follows from betas and the number of the step alone, in double.
struct Corrections {
  double t, bias1, bias2, root_bias2;

  Corrections(const OptimizerSpec& spec, const StepCount& count)
      : t(static_cast<double>(count.steps())),
        bias1(1 - std::pow(spec.beta1, t)),
        bias2(1 - std::pow(spec.beta2, t)),
        root_bias2(std::sqrt(bias2)) {}
};

/// RAdam's rectification of a step, times sqrt(1 - b2^t); 0 where the variance is not tractable.
double rectified(const OptimizerSpec& spec, const Corrections& now) {
  constexpr double least_length = 5;
  const double infinite = 2 / (1 - spec.beta2) - 1;
  const double length = infinite - 2 * now.t * (1 - now.bias2) / now.bias2;
  if (length <= least_length) return 0;
  return now.root_bias2 * std::sqrt((length - 4) * (length - 2) * infinite /
                                    ((infinite - 4) * (infinite - 2) * length));
}

template <class Real>
class Maker {
 public:
  Maker(const OptimizerSpec& spec, const StepCount& count, double rate, double loss_scale)
      : spec_(spec),
        count_(count),
        now_(spec, count),
        rate_(real(rate)),
        decay_(real(spec.weight_decay)),
        unscale_(real(1 / loss_scale)) {}

  StepRule<Real> made() const {
    const std::string& name = spec_.name;
    const Real epsilon = real(spec_.epsilon);
    const rules::Mean<Real> mean = mean_by(spec_.beta1), square = mean_by(spec_.beta2);
    const Real bias1 = real(now_.bias1), root_bias2 = real(now_.root_bias2);
    if (name == "adagrad") {
      return step(rules::AdaGrad<Real>{epsilon, real(1 / (1 + (now_.t - 1) * spec_.lr_decay))});
    }
    if (name == "adadelta") return step(rules::AdaDelta<Real>{mean_by(spec_.rho), epsilon});
    if (name == "rmsprop") return step(rms_prop());
    if (name == "adam") return step(adam());
    if (name == "adamw") return step(rules::AdamW<Real>{adam()});
    if (name == "amsgrad") return step(rules::AmsGrad<Real>{adam()});
    if (name == "adamax") return step(rules::AdaMax<Real>{mean, real(spec_.beta2), epsilon, bias1});
    if (name == "nadam") {
      const double mu = nadam_mu(spec_, count_.steps());
      const double next = nadam_mu(spec_, count_.steps() + 1);
      return step(rules::NAdam<Real>{mean, square, epsilon, root_bias2,
                                     real((1 - mu) / (1 - count_.product())),
                                     real(next / (1 - count_.product() * next))});
    }
    if (name == "radam") {
      return step(rules::RAdam<Real>{mean, square, epsilon, bias1, real(rectified(spec_, now_))});
    }
    if (name == "lars") {
      return rules::Lars<Real>{rate_,  decay_, unscale_, real(spec_.momentum), real(spec_.trust),
                               epsilon};
    }
    if (name == "lamb") return rules::Lamb<Real>{rate_, decay_, unscale_, adam()};
    if (spec_.momentum == 0) return step(rules::Sgd<Real>{});
    return step(rules::Velocity<Real>{real(spec_.momentum),
                                      real(1 - spec_.s * (1 - spec_.momentum)), real(spec_.s)});
  }

 private:
  static Real real(double number) { return static_cast<Real>(number); }
  static rules::Mean<Real> mean_by(double kept) { return {real(kept), real(1 - kept)}; }
  template <class Rule>
  rules::Step<Rule> step(const Rule& rule) const {
    return {rate_, decay_, unscale_, rule};
  }
  rules::Adam<Real> adam() const {
    return {mean_by(spec_.beta1), mean_by(spec_.beta2), real(spec_.epsilon), real(now_.bias1),
            real(now_.root_bias2)};
  }
  rules::RmsProp<Real> rms_prop() const {
    const int velocity = spec_.momentum == 0 ? 0 : 1;
    return {mean_by(spec_.rho), real(spec_.epsilon), real(spec_.momentum), velocity,
            spec_.centered ? velocity + 1 : 0};
  }

  const OptimizerSpec& spec_;
  const StepCount& count_;
  Corrections now_;
  Real rate_, decay_, unscale_;
};

}  // namespace

void StepCount::advance(const OptimizerSpec& spec) {
  ++steps_;
  if (spec.name == "nadam") product_ *= nadam_mu(spec, steps_);
}

void StepCount::set(const OptimizerSpec& spec, std::int64_t steps) {
  require(steps >= 0, "optimizer {}: {} steps cannot have been taken", spec.name, steps);
  steps_ = spec.name == "nadam" ? 0 : steps;
  product_ = 1;
  while (steps_ < steps) advance(spec);
}

template <class Real>
StepRule<Real> step_rule(const OptimizerSpec& spec, const StepCount& count, double rate,
                         double loss_scale) {
  require(count.steps() >= 1, "optimizer {}: steps are counted from 1", spec.name);
  return Maker<Real>(spec, count, rate, loss_scale).made();
}

template StepRule<float> step_rule(const OptimizerSpec&, const StepCount&, double, double);
template StepRule<double> step_rule(const OptimizerSpec&, const StepCount&, double, double);

}  // namespace unlatch::models
