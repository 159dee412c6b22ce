#include "models/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace unlatch::models {

template <class Real>
void compensate(const Compensation& spec, std::span<Real> mean_square, std::span<Real> gradient,
                std::span<const Real> weights, std::span<const Real> sent) {
  const Real lambda = static_cast<Real>(spec.lambda);
  if (!spec.adaptive) {
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      const Real g = gradient[j];
      gradient[j] = g + lambda * g * g * (weights[j] - sent[j]);
    }
    return;
  }
  const Real m = static_cast<Real>(spec.decay);
  constexpr Real least = static_cast<Real>(least_mean_square);
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    const Real g = gradient[j];
    mean_square[j] = m * mean_square[j] + (1 - m) * g * g + least;
    gradient[j] = g + lambda / std::sqrt(mean_square[j]) * g * g * (weights[j] - sent[j]);
  }
}

double kept_share(const LocalStep& spec, double rate) {
  return spec.decays_pre ? 1 - rate * spec.decay : 1;
}

template <class Real>
void local_step(const LocalStep& spec, std::span<Real> weights, std::span<const Real> gradient,
                std::span<const Real> earlier, double rate) {
  const Real own = static_cast<Real>(spec.own);
  const Real server = static_cast<Real>(spec.server);
  const Real decay = static_cast<Real>(spec.decay);
  const Real kept = static_cast<Real>(kept_share(spec, rate));
  const Real step = static_cast<Real>(rate);
  for (std::size_t j = 0; j < weights.size(); ++j) {
    weights[j] -=
        step * (own * gradient[j] + server * (kept * earlier[j] - weights[j]) + decay * weights[j]);
  }
}

double compression_ratio(const Compression& spec, int update) {
  const int step = update / spec.step_batches;
  if (step >= spec.warm_up) return spec.ratio;
  return std::max(spec.ratio, std::pow(spec.ratio, (step + 1.0) / (spec.warm_up + 1.0)));
}

std::size_t entries_sent(const Compression& spec, int update, std::size_t entries) {
  const auto wanted = std::ceil(compression_ratio(spec, update) * static_cast<double>(entries));
  return std::min(entries, static_cast<std::size_t>(wanted));
}

template <class Real>
void compress(const Compression& spec, int update, std::span<Real> momentum,
              std::span<Real> gathered, std::span<Real> gradient) {
  if (spec.clip > 0) {
    double square = 0;
    for (const Real g : gradient) square += static_cast<double>(g) * static_cast<double>(g);
    const double norm = std::sqrt(square);
    if (norm > spec.clip) {
      const Real factor = static_cast<Real>(spec.clip / norm);
      for (Real& g : gradient) g *= factor;
    }
  }
  const Real mu = static_cast<Real>(spec.momentum);
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    momentum[j] = mu * momentum[j] + gradient[j];
    gathered[j] += momentum[j];
  }
  const std::size_t sent = entries_sent(spec, update, gradient.size());
  std::vector<std::size_t> largest(gradient.size());
  std::iota(largest.begin(), largest.end(), std::size_t{0});
  std::nth_element(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(sent),
                   largest.end(), [&](std::size_t a, std::size_t b) {
                     const Real x = std::abs(gathered[a]), y = std::abs(gathered[b]);
                     return x != y ? x > y : a < b;
                   });
  std::ranges::fill(gradient, Real{0});
  for (std::size_t n = 0; n < sent; ++n) {
    const std::size_t j = largest[n];
    gradient[j] = gathered[j];
    gathered[j] = momentum[j] = 0;  // momentum factor masking
  }
}

template void compensate(const Compensation&, std::span<float>, std::span<float>,
                         std::span<const float>, std::span<const float>);
template void compensate(const Compensation&, std::span<double>, std::span<double>,
                         std::span<const double>, std::span<const double>);
template void local_step(const LocalStep&, std::span<float>, std::span<const float>,
                         std::span<const float>, double);
template void local_step(const LocalStep&, std::span<double>, std::span<const double>,
                         std::span<const double>, double);
template void compress(const Compression&, int, std::span<float>, std::span<float>,
                       std::span<float>);
template void compress(const Compression&, int, std::span<double>, std::span<double>,
                       std::span<double>);

}  // namespace unlatch::models
