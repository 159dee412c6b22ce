// Drift: how fast weights move, as PipeMare's correction of delayed backwards uses it.
//
// Yang et al., MLSys 2021 (arXiv 1910.05124), techniques T1 and T2; modern.md 2.7.
#pragma once

#include <span>
#include <vector>

namespace unlatch::models {

/// T1: the learning rate's factor at an update, 1 / delay^(1 - update / updates), which becomes 1
/// after `updates` of them; 1 for delays below 2.
double rescaled_rate(int delay, int update, int updates);

/// T2: a running mean of the steps of one stage's weights.
template <class Real>
class Drift {
 public:
  using Number = Real;
  /// The mean forgets to a share `decay` within `delay` updates.
  Drift(double decay, int delay, std::size_t parameters);
  void note_step(std::span<const Real> before, std::span<const Real> after);
  /// Moves weights back by `delay` mean steps, to about where a forward saw them.
  void move_back(std::span<Real> weights) const;

 private:
  Real kept_;
  Real delay_;
  std::vector<Real> mean_;
};

extern template class Drift<float>;
extern template class Drift<double>;

}  // namespace unlatch::models
