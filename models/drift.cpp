#include "models/drift.h"

#include <algorithm>
#include <cmath>

namespace unlatch::models {

double rescaled_rate(int delay, int update, int updates) {
  if (delay < 2 || update >= updates) return 1;
  return std::pow(delay, static_cast<double>(update) / updates - 1);
}

double kept_at_a_step(double decay, int delay) { return std::pow(decay, 1.0 / std::max(delay, 1)); }

template <class Real>
void note_step(Real kept, std::span<Real> mean, std::span<const Real> before,
               std::span<const Real> after) {
  for (std::size_t j = 0; j < mean.size(); ++j) {
    mean[j] = kept * mean[j] + (1 - kept) * (after[j] - before[j]);
  }
}

template <class Real>
void move_back(int delay, std::span<const Real> mean, std::span<Real> weights) {
  const Real steps = static_cast<Real>(delay);
  for (std::size_t j = 0; j < mean.size(); ++j) weights[j] -= steps * mean[j];
}

template void note_step(float, std::span<float>, std::span<const float>, std::span<const float>);
template void note_step(double, std::span<double>, std::span<const double>,
                        std::span<const double>);
template void move_back(int, std::span<const float>, std::span<float>);
template void move_back(int, std::span<const double>, std::span<double>);

}  // namespace unlatch::models
