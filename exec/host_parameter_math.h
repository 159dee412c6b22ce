// HostParameterMath: ParameterMath on numbers in the host's memory.
#pragma once

#include "exec/parameter_math.h"

namespace unlatch::exec {

template <class Real>
class HostParameterMath : public ParameterMath {
 public:
  void clear(Tensor& tensor) override;
  void add(const Tensor& more, Tensor& sum) override;
  void compensate(const Compensation& spec, Tensor& mean_square, Tensor& gradient,
                  const Tensor& weights, const Tensor& sent) override;
  void local_step(const LocalStep& spec, Tensor& weights, const Tensor& gradient,
                  const Tensor& earlier, double rate) override;
  void compress(const Compression& spec, int update, Gathered& gathered, Tensor& gradient) override;
  Tensor square_sum(const Tensor& gradient) override;
  void clip(double most, std::span<const Tensor> squares, Tensor& gradient) override;
  void note_step(double kept, Tensor& mean, const Tensor& before, const Tensor& after) override;
  void move_back(int delay, const Tensor& mean, Tensor& weights) override;

 private:
  BufferPool pool_;
};

/// Of what square_sum() gave for the parts of a gradient.
double sum_of(std::span<const Tensor> squares);

extern template class HostParameterMath<float>;
extern template class HostParameterMath<double>;

}  // namespace unlatch::exec
