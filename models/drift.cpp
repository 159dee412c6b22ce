#include "models/drift.h"

#include <algorithm>
#include <cmath>

namespace unlatch::models {

double rescaled_rate(int delay, int update, int updates) {
  if (delay < 2 || update >= updates) return 1;
  return std::pow(delay, static_cast<double>(update) / updates - 1);
}

template <class Real>
Drift<Real>::Drift(double decay, int delay, std::size_t parameters)
    : kept_(static_cast<Real>(std::pow(decay, 1.0 / std::max(delay, 1)))),
      delay_(static_cast<Real>(delay)),
      mean_(parameters) {}

template <class Real>
void Drift<Real>::note_step(std::span<const Real> before, std::span<const Real> after) {
  for (std::size_t j = 0; j < mean_.size(); ++j) {
    mean_[j] = kept_ * mean_[j] + (1 - kept_) * (after[j] - before[j]);
  }
}

template <class Real>
void Drift<Real>::move_back(std::span<Real> weights) const {
  for (std::size_t j = 0; j < mean_.size(); ++j) weights[j] -= delay_ * mean_[j];
}

template class Drift<float>;
template class Drift<double>;

}  // namespace unlatch::models
