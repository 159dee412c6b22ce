// Launchers of the optimizers' steps on the device, from the rules that the CPU uses; they follow
// the rules of cuda_kernels.h.
#pragma once

#include "exec/cuda_kernels.h"
#include "exec/cuda_optimizer_arithmetic.h"

namespace unlatch::exec::cuda {

/// One step of all weights of a stage, by a rule of models::StepRule<float>. A step whose gradient
/// holds an infinity or no number only clears the gradient; `check` is null where nobody looks.
template <class Rule>
void launch_step(StreamHandle stream, rules::Step<Rule> step, StagePointers stage,
                 GradientCheck* check);

/// The same for lars and lamb; sums of a tensor are taken in the order of its pieces.
template <class Rule>
void launch_tensor_step(StreamHandle stream, Rule rule, StagePointers stage, TensorTables tables,
                        GradientCheck* check);

/// weights -= factor * velocity.
void launch_coast(StreamHandle stream, float factor, const float* velocity, float* weights,
                  std::size_t n);

}  // namespace unlatch::exec::cuda
