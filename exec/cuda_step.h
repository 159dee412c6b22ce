// The constants that the optimizer kernel needs of one step.
#pragma once

#include "exec/cuda_arithmetic.h"
#include "models/optimizer.h"

namespace unlatch::exec::cuda {

inline Step step_of(const models::OptimizerSpec& spec, double rate, double loss_scale = 1) {
  return {.rate = static_cast<float>(rate),
          .decay = static_cast<float>(spec.weight_decay),
          .momentum = static_cast<float>(spec.momentum),
          .of_velocity = static_cast<float>(1 - spec.s * (1 - spec.momentum)),
          .of_gradient = static_cast<float>(spec.s),
          .unscale = static_cast<float>(1 / loss_scale)};
}

}  // namespace unlatch::exec::cuda
