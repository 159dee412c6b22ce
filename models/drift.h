// Drift: how fast weights move, as PipeMare's correction of delayed backwards uses it.
//
// Yang et al., MLSys 2021 (arXiv 1910.05124), techniques T1 and T2; modern.md 2.7.
#pragma once

#include <span>

namespace unlatch::models {

/// T1: the learning rate's factor at an update, 1 / delay^(1 - update / updates), which becomes 1
/// after `updates` of them; 1 for delays below 2.
double rescaled_rate(int delay, int update, int updates);

/// T2: the share of itself that a running mean of steps keeps at each, so that it forgets to a
/// share `decay` within `delay` updates.
double kept_at_a_step(double decay, int delay);
/// Takes the step from `before` to `after` into the mean, which starts as zeros.
template <class Real>
void note_step(Real kept, std::span<Real> mean, std::span<const Real> before,
               std::span<const Real> after);
/// Moves weights back by `delay` mean steps, to about where a forward saw them.
template <class Real>
void move_back(int delay, std::span<const Real> mean, std::span<Real> weights);

extern template void note_step(float, std::span<float>, std::span<const float>,
                               std::span<const float>);
extern template void note_step(double, std::span<double>, std::span<const double>,
                               std::span<const double>);
extern template void move_back(int, std::span<const float>, std::span<float>);
extern template void move_back(int, std::span<const double>, std::span<double>);

}  // namespace unlatch::models
