// Launchers of the own kernels: what cuDNN and cuBLAS lack. All enqueue and return; sums are taken
// in a fixed order. Tensors of void hold numbers of the precision, others float32. A stream is an
// opaque handle, so that no CUDA header is needed here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda_arithmetic.h"
#include "exec/precision.h"

struct CUstream_st;

namespace unlatch::exec::cuda {

using StreamHandle = CUstream_st*;

void launch_relu(StreamHandle stream, Precision precision, const void* x, void* y, std::size_t n);
/// `out` may be `g`.
void launch_relu_gradient(StreamHandle stream, Precision precision, const void* y, const void* g,
                          void* out, std::size_t n);
/// y += x.
void launch_add(StreamHandle stream, Precision precision, const void* x, void* y, std::size_t n);
/// y += x.
void launch_accumulate(StreamHandle stream, Precision precision, const void* x, float* y,
                       std::size_t n);
/// y = factor * x; y may be x.
void launch_scale(StreamHandle stream, Precision precision, float factor, const void* x, void* y,
                  std::size_t n);
/// y = x in the precision.
void launch_convert(StreamHandle stream, Precision precision, const float* x, void* y,
                    std::size_t n);
/// y += the bias of each channel.
void launch_add_bias(StreamHandle stream, Precision precision, const float* bias, void* y,
                     ChannelShape shape);
/// sums[c] += the sum of channel c.
void launch_add_channel_sums(StreamHandle stream, Precision precision, const void* g, float* sums,
                             ChannelShape shape);
/// Each row's loss; then their sum, in order, in *total.
void launch_cross_entropy(StreamHandle stream, Precision precision, const void* logits,
                          const std::int32_t* labels, int rows, int classes, double share,
                          void* gradient, RowLoss* of_rows, RowLoss* total);

}  // namespace unlatch::exec::cuda
