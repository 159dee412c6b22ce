// Launcher of the sum of squares, of heads and of gradients to be clipped; it follows the rules of
// cuda_kernels.h.
#pragma once

#include "exec/cuda_kernels.h"

namespace unlatch::exec::cuda {

inline constexpr int square_shares = 64;

/// *sum = more + factor * the sum of the squares of x. `sums` holds square_shares numbers.
void launch_square_sum(StreamHandle stream, Precision precision, const void* x, std::size_t n,
                       double factor, double more, double* sums, double* sum);

}  // namespace unlatch::exec::cuda
