// ParameterMath: what servers, compression and stale backwards do to flat weights and gradients,
// beyond an optimizer's step; the seam to where those lie.
#pragma once

#include <span>

#include "exec/tensor.h"
#include "schedules/learning.h"

namespace unlatch::exec {

/// Of one stage. Its tensors are as large as the stage's weights; a state starts as zeros and may
/// move to where the task at hand runs.
class ParameterMath {
 public:
  virtual ~ParameterMath() = default;
  virtual void clear(Tensor& tensor) = 0;
  /// sum += more.
  virtual void add(const Tensor& more, Tensor& sum) = 0;

  /// models::compensate(). The mean square is empty unless the compensation is adaptive.
  virtual void compensate(const Compensation& spec, Tensor& mean_square, Tensor& gradient,
                          const Tensor& weights, const Tensor& sent) = 0;
  /// models::local_step().
  virtual void local_step(const LocalStep& spec, Tensor& weights, const Tensor& gradient,
                          const Tensor& earlier, double rate) = 0;
  /// What one copy gathers until it is large enough to be sent.
  struct Gathered {
    Tensor momentum;
    Tensor sum;
  };
  /// models::compress().
  virtual void compress(const Compression& spec, int update, Gathered& gathered,
                        Tensor& gradient) = 0;
  /// The sum of the squares of a gradient, its loss scale taken off: a double where the task at
  /// hand runs.
  virtual Tensor square_sum(const Tensor& gradient) = 0;
  /// Multiplies a gradient by models::clip_factor() of these sums' sum, in their order.
  virtual void clip(double most, std::span<const Tensor> squares, Tensor& gradient) = 0;
  /// models::note_step(): a mean of steps, which keeps such a share of itself.
  virtual void note_step(double kept, Tensor& mean, const Tensor& before, const Tensor& after) = 0;
  /// models::move_back().
  virtual void move_back(int delay, const Tensor& mean, Tensor& weights) = 0;
};

}  // namespace unlatch::exec
