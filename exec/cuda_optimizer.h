// CudaOptimizer: the optimizer of one stage on a GPU, by the rules of models::Optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cuda_device.h"
#include "exec/cuda_optimizer_arithmetic.h"
#include "models/optimizer_step.h"
#include "models/parameter_tensors.h"

namespace unlatch::exec::cuda {

/// Enqueues on the lane of the task at hand. Steps left out because a gradient was not finite are
/// counted as steps: bias corrections then are those of a step later.
class CudaOptimizer {
 public:
  CudaOptimizer(const models::OptimizerSpec& spec,
                const std::vector<models::ParameterTensor>& tensors, double loss_scale,
                Device& device, Rank rank);

  /// Steps the weights and clears the gradient. `check` is null where nobody looks.
  void step(const Tensor& weights, const Tensor& gradient, double rate, GradientCheck* check);
  /// models::Optimizer::coast().
  void coast(const Tensor& weights, int steps, double rate);

  /// As models::Optimizer has it; may move to where the task at hand runs. Empty without slots.
  Tensor& state() { return state_; }
  std::int64_t steps() const { return count_.steps(); }
  void set_steps(std::int64_t steps) { count_.set(spec_, steps); }
  std::size_t bytes() const { return state_.bytes(); }

 private:
  template <class Rule>
  void step_tensors(const Rule& rule, const StagePointers& stage, GradientCheck* check);

  models::OptimizerSpec spec_;
  double loss_scale_;
  Device& device_;
  Tensor state_;
  Tensor pieces_;   ///< TensorPiece; lars and lamb
  Tensor tensors_;  ///< PiecesOfTensor; the same
  models::StepCount count_;
};

}  // namespace unlatch::exec::cuda
