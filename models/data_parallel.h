// What the copies of a model do to gradients and weights beyond a plain sum, on flat parameters.
//
// Compensation: Zheng et al., ICML 2017 (arXiv 1609.08326). Local step: GLU of SSD-SGD
// (arXiv 2012.05396). Compression: Lin et al., ICLR 2018 (arXiv 1712.01887).
#pragma once

#include <cstddef>
#include <span>

#include "schedules/learning.h"

namespace unlatch::models {

/// What is added to an adaptive compensation's mean square.
inline constexpr double least_mean_square = 1e-7;

/// Adds to a gradient what the way from the weights it was computed at to those of now would have
/// changed: lambda g g (weights - sent), element by element. `mean_square` is a state that starts
/// as zeros, used where the compensation is adaptive.
template <class Real>
void compensate(const Compensation& spec, std::span<Real> mean_square, std::span<Real> gradient,
                std::span<const Real> weights, std::span<const Real> sent);

/// w -= rate (own g + server (kept w_pre - w) + decay w) with the local step's own rate.
template <class Real>
void local_step(const LocalStep& spec, std::span<Real> weights, std::span<const Real> gradient,
                std::span<const Real> earlier, double rate);
/// The share of w_pre in it.
double kept_share(const LocalStep& spec, double rate);

/// Replaces the gradient by what a copy sends: the largest entries that it has gathered, zero
/// elsewhere; of equal ones the first. `update` counts from 0 and sets the ratio while warming up.
/// `momentum` and `gathered` are states that start as zeros.
template <class Real>
void compress(const Compression& spec, int update, std::span<Real> momentum,
              std::span<Real> gathered, std::span<Real> gradient);

/// The share of entries sent at an update: geometric steps from dense to the final ratio.
double compression_ratio(const Compression& spec, int update);
/// How many of so many entries that is.
std::size_t entries_sent(const Compression& spec, int update, std::size_t entries);

extern template void compensate(const Compensation&, std::span<float>, std::span<float>,
                                std::span<const float>, std::span<const float>);
extern template void compensate(const Compensation&, std::span<double>, std::span<double>,
                                std::span<const double>, std::span<const double>);
extern template void local_step(const LocalStep&, std::span<float>, std::span<const float>,
                                std::span<const float>, double);
extern template void local_step(const LocalStep&, std::span<double>, std::span<const double>,
                                std::span<const double>, double);
extern template void compress(const Compression&, int, std::span<float>, std::span<float>,
                              std::span<float>);
extern template void compress(const Compression&, int, std::span<double>, std::span<double>,
                              std::span<double>);

}  // namespace unlatch::models
