// Launchers of the own kernels of gradient synthesisers; they follow the rules of cuda_kernels.h.
#pragma once

#include "exec/cuda_kernels.h"

namespace unlatch::exec::cuda {

/// y += the constants of each sample, n numbers in all.
void launch_add_constants(StreamHandle stream, Precision precision, const float* constants,
                          ConstantRows rows, void* y, std::size_t n);
/// p = factor * (p - g).
void launch_slope(StreamHandle stream, Precision precision, float factor, const void* g, void* p,
                  std::size_t n);
/// Steps down a slope by the rate over the energy, all of it on the device: the host never learns
/// the energy. `check` is null where nobody looks.
struct NormalisedStep {
  double rate;
  const double* energy;
  GradientCheck* check;
};
/// Of the constants, then of the map, whose gradient it clears. A step whose map's gradient holds
/// an infinity or no number is left out: where a slope is none, that gradient holds some.
void launch_synthesiser_step(StreamHandle stream, Precision precision, NormalisedStep step,
                             const void* slope, ConstantRows rows, float* constants, float* weights,
                             float* gradient, std::size_t n);

}  // namespace unlatch::exec::cuda
