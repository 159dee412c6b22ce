#include "models/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace unlatch::models {

template <class Real>
Compensator<Real>::Compensator(const Compensation& spec, std::size_t parameters)
    : spec_(spec), mean_square_(spec.adaptive ? parameters : 0) {}

template <class Real>
void Compensator<Real>::correct(std::span<Real> gradient, std::span<const Real> weights,
                                std::span<const Real> sent) {
  const Real lambda = static_cast<Real>(spec_.lambda);
  if (!spec_.adaptive) {
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      const Real g = gradient[j];
      gradient[j] = g + lambda * g * g * (weights[j] - sent[j]);
    }
    return;
  }
  const Real m = static_cast<Real>(spec_.decay);
  constexpr Real least = static_cast<Real>(1e-7);
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    const Real g = gradient[j];
    mean_square_[j] = m * mean_square_[j] + (1 - m) * g * g + least;
    gradient[j] = g + lambda / std::sqrt(mean_square_[j]) * g * g * (weights[j] - sent[j]);
  }
}

template <class Real>
void local_step(const LocalStep& spec, std::span<Real> weights, std::span<const Real> gradient,
                std::span<const Real> earlier, double rate) {
  const Real own = static_cast<Real>(spec.own);
  const Real server = static_cast<Real>(spec.server);
  const Real decay = static_cast<Real>(spec.decay);
  const Real kept = static_cast<Real>(spec.decays_pre ? 1 - rate * spec.decay : 1);
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

template <class Real>
Compressor<Real>::Compressor(const Compression& spec, std::size_t parameters)
    : spec_(spec), momentum_(parameters), gathered_(parameters) {}

template <class Real>
void Compressor<Real>::compress(std::span<Real> gradient, int update) {
  if (spec_.clip > 0) {
    double square = 0;
    for (const Real g : gradient) square += static_cast<double>(g) * static_cast<double>(g);
    const double norm = std::sqrt(square);
    if (norm > spec_.clip) {
      const Real factor = static_cast<Real>(spec_.clip / norm);
      for (Real& g : gradient) g *= factor;
    }
  }
  const Real mu = static_cast<Real>(spec_.momentum);
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    momentum_[j] = mu * momentum_[j] + gradient[j];
    gathered_[j] += momentum_[j];
  }
  const auto wanted =
      std::ceil(compression_ratio(spec_, update) * static_cast<double>(gradient.size()));
  const auto sent = std::min(gradient.size(), static_cast<std::size_t>(wanted));
  std::vector<std::size_t> largest(gradient.size());
  std::iota(largest.begin(), largest.end(), std::size_t{0});
  std::nth_element(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(sent),
                   largest.end(), [&](std::size_t a, std::size_t b) {
                     const Real x = std::abs(gathered_[a]), y = std::abs(gathered_[b]);
                     return x != y ? x > y : a < b;
                   });
  std::ranges::fill(gradient, Real{0});
  for (std::size_t n = 0; n < sent; ++n) {
    const std::size_t j = largest[n];
    gradient[j] = gathered_[j];
    gathered_[j] = momentum_[j] = 0;  // momentum factor masking
  }
}

template class Compensator<float>;
template class Compensator<double>;
template class Compressor<float>;
template class Compressor<double>;
template void local_step(const LocalStep&, std::span<float>, std::span<const float>,
                         std::span<const float>, double);
template void local_step(const LocalStep&, std::span<double>, std::span<const double>,
                         std::span<const double>, double);

}  // namespace unlatch::models
