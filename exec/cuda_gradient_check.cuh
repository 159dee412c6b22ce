// What kernels ask of a GradientCheck: a step whose gradient holds an infinity or no number is
// left out.
#pragma once

#include "exec/cuda_arithmetic.h"

namespace unlatch::exec::cuda {

/// Whoever finds one writes the same.
struct LookForNotFinite {
  const float* gradient;
  GradientCheck* check;
  __device__ void operator()(std::size_t i) const {
    if (!isfinite(gradient[i])) check->not_finite = 1;
  }
};

/// `check` is null where nobody looks.
__device__ inline bool leaves_out(const GradientCheck* check) {
  return check != nullptr && check->not_finite != 0;
}

struct EndStep {
  GradientCheck* check;
  __device__ void operator()(std::size_t) const { end_step(*check); }
};

}  // namespace unlatch::exec::cuda
