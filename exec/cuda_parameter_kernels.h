// Launchers of the own kernels of servers, compression and stale backwards; they follow the rules
// of cuda_kernels.h.
#pragma once

#include "exec/cuda_kernels.h"
#include "exec/cuda_parameter_arithmetic.h"

namespace unlatch::exec::cuda {

/// `mean_square` is null unless the compensation is adaptive.
void launch_compensate(StreamHandle stream, CompensationStep step, float* mean_square,
                       float* gradient, const float* weights, const float* sent, std::size_t n);
/// A step whose gradient holds an infinity or no number is left out; `check` is null where nobody
/// looks.
void launch_local_step(StreamHandle stream, LocalStepFactors step, float* weights,
                       const float* gradient, const float* earlier, std::size_t n,
                       GradientCheck* check);
void launch_note_step(StreamHandle stream, float kept, float* mean, const float* before,
                      const float* after, std::size_t n);
/// weights -= steps * mean.
void launch_move_back(StreamHandle stream, float steps, const float* mean, float* weights,
                      std::size_t n);

/// *sum += *more.
void launch_add_double(StreamHandle stream, const double* more, double* sum);
/// gradient *= models::clip_factor() of the sum of squares.
void launch_clip(StreamHandle stream, double most, const double* squares, float* gradient,
                 std::size_t n);

/// Of models::compress().
struct CompressionStep {
  double clip;  ///< 0: none
  double unscale;
  float momentum;
  std::uint32_t sent;  ///< entries, at least 1
};
/// What compressing takes for itself while it runs.
struct CompressionScratch {
  static constexpr int parts = 8192;
  std::uint32_t counts[digits * parts];
  std::uint32_t of_digits[digits];
  Selection selection;
  double squares[64];
  float factor;  ///< that clips the gradient
};
/// A gradient that holds an infinity or no number counts as zero where `check` is not null.
void launch_compress(StreamHandle stream, CompressionStep step, float* momentum, float* sums,
                     float* gradient, std::size_t n, GradientCheck* check,
                     CompressionScratch* scratch);

}  // namespace unlatch::exec::cuda
