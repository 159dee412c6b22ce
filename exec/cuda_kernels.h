// Launchers of the own kernels: what cuDNN and cuBLAS lack. All enqueue and return; sums are taken
// in a fixed order. A stream is an opaque handle, so that no CUDA header is needed here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda_arithmetic.h"

struct CUstream_st;

namespace unlatch::exec::cuda {

using StreamHandle = CUstream_st*;

void launch_relu(StreamHandle stream, const float* x, float* y, std::size_t n);
/// `out` may be `g`.
void launch_relu_gradient(StreamHandle stream, const float* y, const float* g, float* out,
                          std::size_t n);
/// y += x.
void launch_add(StreamHandle stream, const float* x, float* y, std::size_t n);
/// y = factor * x; y may be x.
void launch_scale(StreamHandle stream, float factor, const float* x, float* y, std::size_t n);
/// Every row of y [rows, columns] becomes the bias.
void launch_fill_rows(StreamHandle stream, const float* bias, float* y, std::size_t rows,
                      std::size_t columns);
/// sums[c] += g[0][c] + g[1][c] + .., in that order.
void launch_add_columns(StreamHandle stream, const float* g, float* sums, std::size_t rows,
                        std::size_t columns);
/// velocity is null for plain SGD.
void launch_optimizer(StreamHandle stream, const Step& step, float* weights, float* gradient,
                      float* velocity, std::size_t n);
/// weights -= factor * velocity.
void launch_coast(StreamHandle stream, float factor, const float* velocity, float* weights,
                  std::size_t n);
/// Each row's loss; then their sum, in order, in *total.
void launch_cross_entropy(StreamHandle stream, const float* logits, const std::int32_t* labels,
                          int rows, int classes, double share, float* gradient, RowLoss* of_rows,
                          RowLoss* total);

}  // namespace unlatch::exec::cuda
