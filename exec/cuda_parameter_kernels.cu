#include "exec/cuda_parameter_kernels.h"

#include "exec/cuda_each.cuh"
#include "exec/cuda_gradient_check.cuh"
#include "models/gradient_clip.h"

namespace unlatch::exec::cuda {
namespace {

struct Compensate {
  CompensationStep step;
  float* mean_square;
  float* gradient;
  const float* weights;
  const float* sent;
  __device__ void operator()(std::size_t i) const {
    compensate(step, mean_square == nullptr ? nullptr : mean_square + i, gradient[i], weights[i],
               sent[i]);
  }
};

struct StepAlone {
  LocalStepFactors step;
  float* weights;
  const float* gradient;
  const float* earlier;
  const GradientCheck* check;
  __device__ void operator()(std::size_t i) const {
    if (!leaves_out(check)) local_step(step, weights[i], gradient[i], earlier[i]);
  }
};

struct NoteStep {
  float kept;
  float* mean;
  const float* before;
  const float* after;
  __device__ void operator()(std::size_t i) const { note_step(kept, mean[i], before[i], after[i]); }
};

struct MoveBack {
  float steps;
  const float* mean;
  float* weights;
  __device__ void operator()(std::size_t i) const { weights[i] -= steps * mean[i]; }
};

struct AddDouble {
  const double* more;
  double* sum;
  __device__ void operator()(std::size_t) const { *sum += *more; }
};

struct Clip {
  double most;
  const double* squares;
  float* gradient;
  __device__ void operator()(std::size_t i) const {
    gradient[i] *= static_cast<float>(models::clip_factor(most, *squares));
  }
};

// ---- compression --------------------------------------------------------------------------------

constexpr int shares = sizeof(CompressionScratch::squares) / sizeof(double);
constexpr int parts = CompressionScratch::parts;

struct SumSquares {
  const float* gradient;
  std::size_t n;
  double* squares;
  __device__ void operator()(std::size_t share) const {
    squares[share] = square_sum(gradient, n, static_cast<int>(share), shares);
  }
};

/// One thread: the order of the sum must not change.
struct Start {
  CompressionStep step;
  CompressionScratch* scratch;
  __device__ void operator()(std::size_t) const {
    scratch->selection = {0, step.sent};
    scratch->factor = 1;
    if (step.clip == 0) return;
    double square = 0;
    for (int s = 0; s < shares; ++s) square += scratch->squares[s];
    const double norm = step.unscale * sqrt(square);
    if (norm > step.clip) scratch->factor = static_cast<float>(step.clip / norm);
  }
};

struct Gather {
  float share;
  const float* gradient;
  float* momentum;
  float* sums;
  const float* factor;
  const GradientCheck* check;
  __device__ void operator()(std::size_t i) const {
    gather(share, leaves_out(check) ? 0 : *factor * gradient[i], momentum[i], sums[i]);
  }
};

struct CountDigits {
  int shift;
  const float* sums;
  std::size_t n;
  CompressionScratch* scratch;
  __device__ void operator()(std::size_t part) const {
    count_digits(scratch->selection, shift, sums, n, static_cast<int>(part), parts,
                 scratch->counts);
  }
};

struct SumCounts {
  CompressionScratch* scratch;
  __device__ void operator()(std::size_t digit) const {
    std::uint32_t sum = 0;
    for (int part = 0; part < parts; ++part) sum += scratch->counts[digit * parts + part];
    scratch->of_digits[digit] = sum;
  }
};

struct ChooseDigit {
  int shift;
  CompressionScratch* scratch;
  __device__ void operator()(std::size_t) const {
    choose_digit(scratch->selection, shift, scratch->of_digits);
  }
};

struct CountLeast {
  const float* sums;
  std::size_t n;
  CompressionScratch* scratch;
  __device__ void operator()(std::size_t piece) const {
    scratch->counts[piece] =
        count_least(scratch->selection, sums, n, static_cast<int>(piece), parts);
  }
};

/// One thread: each piece then knows how many came before it.
struct SumBefore {
  CompressionScratch* scratch;
  __device__ void operator()(std::size_t) const {
    std::uint32_t before = 0;
    for (int piece = 0; piece < parts; ++piece) {
      const std::uint32_t here = scratch->counts[piece];
      scratch->counts[piece] = before;
      before += here;
    }
  }
};

struct TakeLargest {
  float* sums;
  float* momentum;
  float* gradient;
  std::size_t n;
  const CompressionScratch* scratch;
  __device__ void operator()(std::size_t piece) const {
    take_largest(scratch->selection, sums, momentum, gradient, n, static_cast<int>(piece), parts,
                 scratch->counts[piece]);
  }
};

}  // namespace

void launch_compensate(StreamHandle stream, CompensationStep step, float* mean_square,
                       float* gradient, const float* weights, const float* sent, std::size_t n) {
  launch(stream, n, Compensate{step, mean_square, gradient, weights, sent});
}

void launch_local_step(StreamHandle stream, LocalStepFactors step, float* weights,
                       const float* gradient, const float* earlier, std::size_t n,
                       GradientCheck* check) {
  if (check != nullptr) launch(stream, n, LookForNotFinite{gradient, check});
  launch(stream, n, StepAlone{step, weights, gradient, earlier, check});
  if (check != nullptr) launch(stream, 1, EndStep{check});
}

void launch_note_step(StreamHandle stream, float kept, float* mean, const float* before,
                      const float* after, std::size_t n) {
  launch(stream, n, NoteStep{kept, mean, before, after});
}

void launch_move_back(StreamHandle stream, float steps, const float* mean, float* weights,
                      std::size_t n) {
  launch(stream, n, MoveBack{steps, mean, weights});
}

void launch_add_double(StreamHandle stream, const double* more, double* sum) {
  launch(stream, 1, AddDouble{more, sum});
}

void launch_clip(StreamHandle stream, double most, const double* squares, float* gradient,
                 std::size_t n) {
  launch(stream, n, Clip{most, squares, gradient});
}

void launch_compress(StreamHandle stream, CompressionStep step, float* momentum, float* sums,
                     float* gradient, std::size_t n, GradientCheck* check,
                     CompressionScratch* scratch) {
  if (check != nullptr) launch(stream, n, LookForNotFinite{gradient, check});
  if (step.clip != 0) launch(stream, shares, SumSquares{gradient, n, scratch->squares});
  launch(stream, 1, Start{step, scratch});
  launch(stream, n, Gather{step.momentum, gradient, momentum, sums, &scratch->factor, check});
  for (int shift = 32 - bits_a_round; shift >= 0; shift -= bits_a_round) {
    launch(stream, parts, CountDigits{shift, sums, n, scratch});
    launch(stream, digits, SumCounts{scratch});
    launch(stream, 1, ChooseDigit{shift, scratch});
  }
  launch(stream, parts, CountLeast{sums, n, scratch});
  launch(stream, 1, SumBefore{scratch});
  launch(stream, parts, TakeLargest{sums, momentum, gradient, n, scratch});
  if (check != nullptr) launch(stream, 1, EndStep{check});
}

}  // namespace unlatch::exec::cuda
