// What the copies of a model do to gradients and weights beyond a plain sum, on flat parameters.
//
// Compensation: Zheng et al., ICML 2017 (arXiv 1609.08326). Local step: GLU of SSD-SGD
// (arXiv 2012.05396). Compression: Lin et al., ICLR 2018 (arXiv 1712.01887).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "schedules/learning.h"

namespace unlatch::models {

/// Adds to a gradient what the way from the weights it was computed at to those of now would have
/// changed: lambda g g (weights - sent), element by element.
template <class Real>
class Compensator {
 public:
  Compensator(const Compensation& spec, std::size_t parameters);
  void correct(std::span<Real> gradient, std::span<const Real> weights, std::span<const Real> sent);

 private:
  Compensation spec_;
  std::vector<Real> mean_square_;  ///< adaptive only
};

/// w -= rate (own g + server (kept w_pre - w) + decay w) with the local step's own rate.
template <class Real>
void local_step(const LocalStep& spec, std::span<Real> weights, std::span<const Real> gradient,
                std::span<const Real> earlier, double rate);

/// What one copy gathers until it is large enough to be sent.
template <class Real>
class Compressor {
 public:
  Compressor(const Compression& spec, std::size_t parameters);
  /// Replaces the gradient by what is sent: the largest gathered entries, zero elsewhere; of equal
  /// ones the first. `update` counts from 0 and sets the ratio while warming up.
  void compress(std::span<Real> gradient, int update);

 private:
  Compression spec_;
  std::vector<Real> momentum_, gathered_;
};

/// The share of entries sent at an update: geometric steps from dense to the final ratio.
double compression_ratio(const Compression& spec, int update);

extern template class Compensator<float>;
extern template class Compensator<double>;
extern template class Compressor<float>;
extern template class Compressor<double>;
extern template void local_step(const LocalStep&, std::span<float>, std::span<const float>,
                                std::span<const float>, double);
extern template void local_step(const LocalStep&, std::span<double>, std::span<const double>,
                                std::span<const double>, double);

}  // namespace unlatch::models
