#include "models/optimizer.h"

#include <cmath>
#include <utility>

#include "schedules/error.h"

namespace unlatch::models {
namespace {

std::size_t parameters_in(const std::vector<ParameterTensor>& tensors) {
  std::size_t all = 0;
  for (const ParameterTensor& tensor : tensors) {
    require(tensor.first == all, "optimizer: a tensor begins at {}, those before it end at {}",
            tensor.first, all);
    all += tensor.elements;
  }
  return all;
}

}  // namespace

template <class Real>
Optimizer<Real>::Optimizer(const OptimizerSpec& spec, std::vector<ParameterTensor> tensors)
    : spec_(spec),
      tensors_(std::move(tensors)),
      parameters_(parameters_in(tensors_)),
      state_(parameters_ * static_cast<std::size_t>(spec.slots())) {}

template <class Real>
void Optimizer<Real>::step(std::span<Real> weights, std::span<const Real> gradient, double rate) {
  require(weights.size() == gradient.size() && parameters_ == weights.size(),
          "optimizer: {} weights, {} gradients and a state of {} do not go together",
          weights.size(), gradient.size(), parameters_);
  count_.advance(spec_);
  std::visit(
      [&]<class Rule>(const Rule& rule) {
        if constexpr (requires { rule.ratio(1.0, 1.0); }) {
          step_tensors_by(rule, weights, gradient);
        } else {
          step_by(rule, weights, gradient);
        }
      },
      step_rule<Real>(spec_, count_, rate));
}

template <class Real>
template <class Rule>
void Optimizer<Real>::step_by(const Rule& rule, std::span<Real> weights,
                              std::span<const Real> gradient) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    rule.apply(weights[i], gradient[i], slots_of(i));
  }
}

/// Each tensor by itself, its sums in the order of its elements: no split changes a bit.
template <class Real>
template <class Rule>
void Optimizer<Real>::step_tensors_by(const Rule& rule, std::span<Real> weights,
                                      std::span<const Real> gradient) {
  for (const ParameterTensor& tensor : tensors_) {
    const std::size_t end = tensor.first + tensor.elements;
    double of_weights = 0, of_measured = 0;
    for (std::size_t i = tensor.first; i < end; ++i) {
      const double weight = weights[i];
      const double measured = rule.measure(weights[i], gradient[i], tensor.adapted, slots_of(i));
      of_weights += weight * weight;
      of_measured += measured * measured;
    }
    const Real ratio =
        tensor.adapted ? rule.ratio(std::sqrt(of_weights), std::sqrt(of_measured)) : Real{1};
    for (std::size_t i = tensor.first; i < end; ++i) {
      rule.apply(weights[i], gradient[i], tensor.adapted, ratio, slots_of(i));
    }
  }
}

template <class Real>
void Optimizer<Real>::coast(std::span<Real> weights, int steps, double rate) const {
  const Real factor = static_cast<Real>(coast_factor(spec_, steps, rate));
  if (state_.empty()) return;
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= factor * state_[i];
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace unlatch::models
