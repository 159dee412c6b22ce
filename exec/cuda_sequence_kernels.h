// Launchers of the own kernels for transformers; they follow the rules of cuda_kernels.h.
#pragma once

#include "exec/cuda_kernels.h"
#include "exec/cuda_sequence_arithmetic.h"

namespace unlatch::exec::cuda {

/// y [rows, width] from the numbers of the tokens and both tables.
void launch_embedding(StreamHandle stream, Precision precision, const void* tokens,
                      const float* tables, void* y, EmbeddingShape shape);
/// Adds to the gradient of both tables.
void launch_embedding_gradient(StreamHandle stream, Precision precision, const void* tokens,
                               const void* g, float* tables, EmbeddingShape shape);

void launch_gelu(StreamHandle stream, Precision precision, const void* x, void* y, std::size_t n);
/// `out` may be `g`.
void launch_gelu_gradient(StreamHandle stream, Precision precision, const void* x, const void* g,
                          void* out, std::size_t n);

/// Fills `mean` and `inverse`, each [rows]. Parameters are gamma, then beta, each [size].
void launch_layer_norm(StreamHandle stream, Precision precision, const void* x,
                       const float* parameters, float epsilon, float* mean, float* inverse, void* y,
                       RowShape shape);
/// `means` holds 2 * rows numbers; `sums` becomes the gradients of gamma and beta; `out` may be
/// `g`.
void launch_layer_norm_gradient(StreamHandle stream, Precision precision, const void* x,
                                const void* g, const float* gamma, RowNorms norms, float* means,
                                float* sums, void* out, RowShape shape);

/// Scores become their softmax over the tokens seen; `of_rows` holds 2 * rows numbers.
void launch_causal_softmax(StreamHandle stream, Precision precision, void* scores, float* of_rows,
                           RowShape shape);
/// The gradient of the softmax p becomes that of the scores; `of_rows` holds `rows` numbers.
void launch_causal_softmax_gradient(StreamHandle stream, Precision precision, const void* p,
                                    void* g, float* of_rows, RowShape shape);

}  // namespace unlatch::exec::cuda
