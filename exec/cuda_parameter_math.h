// CudaParameterMath: ParameterMath on a GPU, enqueued on the lane of the task at hand.
#pragma once

#include "exec/cuda_device.h"
#include "exec/parameter_math.h"

namespace unlatch::exec::cuda {

/// Gradients come with the loss scale.
class CudaParameterMath : public ParameterMath {
 public:
  /// `check` is that of the stage's optimizer; empty where the loss is not scaled.
  CudaParameterMath(Device& device, double loss_scale, Tensor& check)
      : device_(device), unscale_(1 / loss_scale), check_(check) {}

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

  /// That of the optimizer, brought to where the task at hand runs; null where there is none.
  GradientCheck* check();

 private:
  Device& device_;
  double unscale_;
  Tensor& check_;
};

}  // namespace unlatch::exec::cuda
