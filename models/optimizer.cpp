// The optimizers' step and the parsers of optimizers and rate schedules.
#include "models/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

constexpr double largest = std::numeric_limits<double>::max();

}  // namespace

OptimizerSpec OptimizerSpec::parse(std::string_view text) {
  const Specification given("optimizer", text);
  given.allow_names({"sgd", "momentum", "nesterov", "sum"});
  given.refuse_argument();
  OptimizerSpec spec{.name = given.name()};
  if (spec.name == "sgd") {
    given.allow_keys({"decay"});
  } else {
    if (spec.name == "sum") {
      given.allow_keys({"momentum", "s", "decay"});
    } else {
      given.allow_keys({"momentum", "decay"});
    }
    spec.momentum = given.number("momentum", 0.9, 0, 1);
    require(spec.momentum < 1, "optimizer '{}': momentum must be below 1", text);
    spec.s = spec.name == "momentum" ? 0 : given.number("s", 1, 0, largest);
  }
  spec.weight_decay = given.number("decay", 0, 0, largest);
  return spec;
}

double coast_factor(const OptimizerSpec& spec, int steps, double rate) {
  const double b = spec.momentum;
  const double sum = (b - std::pow(b, steps + 1)) / (1 - b);  // b + b^2 + .. + b^steps
  return rate * (1 - spec.s * (1 - b)) * sum;
}

template <class Real>
Optimizer<Real>::Optimizer(const OptimizerSpec& spec, std::size_t parameters)
    : spec_(spec), state_(spec.momentum == 0 ? 0 : parameters) {}

template <class Real>
void Optimizer<Real>::step(std::span<Real> weights, std::span<const Real> gradient, double rate) {
  require(weights.size() == gradient.size() &&
              (state_.empty() || state_.size() == weights.size()),
          "optimizer: {} weights, {} gradients and a state of {} do not go together",
          weights.size(), gradient.size(), state_.size());
  const Real a = static_cast<Real>(rate);
  const Real decay = static_cast<Real>(spec_.weight_decay);
  ++steps_;
  if (state_.empty()) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] -= a * (gradient[i] + decay * weights[i]);
    }
    return;
  }
  const Real b = static_cast<Real>(spec_.momentum);
  const Real s = static_cast<Real>(spec_.s);
  const Real of_velocity = static_cast<Real>(1 - spec_.s * (1 - spec_.momentum));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Real g = gradient[i] + decay * weights[i];
    state_[i] = b * state_[i] + g;
    weights[i] -= a * (of_velocity * state_[i] + s * g);
  }
}

template <class Real>
void Optimizer<Real>::coast(std::span<Real> weights, int steps, double rate) const {
  if (state_.empty()) return;
  const Real factor = static_cast<Real>(coast_factor(spec_, steps, rate));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= factor * state_[i];
}

template class Optimizer<float>;
template class Optimizer<double>;

RateSchedule RateSchedule::parse(std::string_view text, double rate) {
  require(std::isfinite(rate) && rate > 0, "the learning rate must be above 0, not {}", rate);
  const Specification given("learning-rate schedule", text);
  given.allow_names({"constant", "linear", "step", "cosine"});
  given.refuse_argument();
  RateSchedule schedule{.rate = rate};
  if (given.name() != "step") {
    given.allow_keys({});
    schedule.kind = given.name() == "linear"   ? Kind::linear
                    : given.name() == "cosine" ? Kind::cosine
                                               : Kind::constant;
    return schedule;
  }
  schedule.kind = Kind::step;
  given.allow_keys({"at", "factor"});
  require(given.has("at"),
          "learning-rate schedule '{}': say after which epochs the rate drops, as in "
          "step:at=60/80,factor=0.1",
          text);
  schedule.at = given.list("at", {}, 1, std::numeric_limits<int>::max());
  require(std::adjacent_find(schedule.at.begin(), schedule.at.end(), std::greater_equal<>()) ==
              schedule.at.end(),
          "learning-rate schedule '{}': the epochs of 'at' must rise", text);
  schedule.factor = given.number("factor", 0.1, 0, largest);
  return schedule;
}

double RateSchedule::at_batch(int batch, int batches, int per_epoch) const {
  require(batch >= 0 && batches >= 1 && per_epoch >= 1,
          "learning rate: batch {} of {} with {} an epoch is no place in a run", batch, batches,
          per_epoch);
  const double done = std::min(1.0, static_cast<double>(batch) / batches);
  switch (kind) {
    case Kind::constant:
      return rate;
    case Kind::linear:
      return rate * (1 - done);
    case Kind::cosine:
      return rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Kind::step:
      break;
  }
  double dropped = rate;
  for (int epoch : at) {
    if (batch / per_epoch >= epoch) dropped *= factor;
  }
  return dropped;
}

}  // namespace unlatch::models
