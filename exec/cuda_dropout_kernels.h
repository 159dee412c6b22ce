// Launchers of the kernels of dropout; see cuda_kernels.h.
#pragma once

#include "exec/cuda_kernels.h"
#include "models/dropout.h"

namespace unlatch::exec::cuda {

/// A byte a number of [samples, of_sample], 1 where it is kept.
void launch_draw_mask(StreamHandle stream, models::DropoutMask mask, std::int64_t of_sample,
                      std::uint8_t* kept, std::size_t n);
/// y = factor * x where kept, else 0; y may be x.
void launch_masked(StreamHandle stream, Precision precision, float factor, const std::uint8_t* kept,
                   const void* x, void* y, std::size_t n);

}  // namespace unlatch::exec::cuda
