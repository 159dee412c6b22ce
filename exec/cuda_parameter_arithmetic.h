// The arithmetic of servers, compression and stale backwards on the device, one element or one
// share at a time; it follows the rules of cuda_arithmetic.h and the formulas of
// models/data_parallel.h and models/drift.h.
#pragma once

#include "exec/cuda_arithmetic.h"

namespace unlatch::exec::cuda {

/// Of models::compensate(). Gradients come with the loss scale, which `unscale` takes off.
struct CompensationStep {
  float lambda;
  float decay;
  float least;  ///< added to the mean square
  float unscale;
};

/// `mean_square` is null unless the compensation is adaptive. A gradient that is not finite stays
/// so, for the optimizer to see.
UNLATCH_HOST_DEVICE inline void compensate(const CompensationStep& step, float* mean_square,
                                           float& gradient, float weight, float sent) {
  const float g = step.unscale * gradient;
  if (!std::isfinite(g)) return;
  float lambda = step.lambda;
  if (mean_square != nullptr) {
    *mean_square = step.decay * *mean_square + (1 - step.decay) * g * g + step.least;
    lambda /= std::sqrt(*mean_square);
  }
  gradient = (g + lambda * g * g * (weight - sent)) / step.unscale;
}

/// Of models::local_step().
struct LocalStepFactors {
  float rate;
  float own;
  float server;
  float kept;
  float decay;
  float unscale;
};

UNLATCH_HOST_DEVICE inline void local_step(const LocalStepFactors& step, float& weight,
                                           float gradient, float earlier) {
  weight -= step.rate * (step.own * step.unscale * gradient +
                         step.server * (step.kept * earlier - weight) + step.decay * weight);
}

/// A running mean of steps.
UNLATCH_HOST_DEVICE inline void note_step(float kept, float& mean, float before, float after) {
  mean = kept * mean + (1 - kept) * (after - before);
}

/// Takes a gradient into what a copy gathers.
UNLATCH_HOST_DEVICE inline void gather(float share, float gradient, float& momentum, float& sum) {
  momentum = share * momentum + gradient;
  sum += momentum;
}

// ---- the largest entries ------------------------------------------------------------------------
// By magnitude, of equal ones the first. The bits of a magnitude order like the number; the search
// fixes four of them at a time, from the highest down.

inline constexpr int bits_a_round = 4;
inline constexpr int digits = 1 << bits_a_round;

struct Selection {
  std::uint32_t least = 0;  ///< bits of the smallest magnitude taken, as far as they are fixed
  std::uint32_t left = 0;   ///< how many are still to take of those that agree with it
};

UNLATCH_HOST_DEVICE inline std::uint32_t magnitude(float value) {
  union {
    float number;
    std::uint32_t bits;
  } of{value};
  return of.bits & 0x7fffffffU;
}

/// Counts, by their next digit, the entries of one of `parts` shares that agree with the selection
/// in all higher bits. counts[digit * parts + part].
UNLATCH_HOST_DEVICE inline void count_digits(const Selection& selection, int shift,
                                             const float* values, std::size_t n, int part,
                                             int parts, std::uint32_t* counts) {
  std::uint32_t found[digits] = {};
  const int higher = shift + bits_a_round;
  for (std::size_t i = static_cast<std::size_t>(part); i < n;
       i += static_cast<std::size_t>(parts)) {
    const std::uint64_t bits = magnitude(values[i]);
    if (bits >> higher == static_cast<std::uint64_t>(selection.least) >> higher) {
      ++found[bits >> shift & (digits - 1)];
    }
  }
  for (int digit = 0; digit < digits; ++digit) counts[digit * parts + part] = found[digit];
}

/// Fixes the next digit from the number of entries with each.
UNLATCH_HOST_DEVICE inline void choose_digit(Selection& selection, int shift,
                                             const std::uint32_t* of_digits) {
  int digit = digits - 1;
  for (; digit > 0 && of_digits[digit] < selection.left; --digit) {
    selection.left -= of_digits[digit];
  }
  selection.least |= static_cast<std::uint32_t>(digit) << shift;
}

/// Where one of `parts` pieces in a row begins.
UNLATCH_HOST_DEVICE inline std::size_t piece_begin(std::size_t n, int piece, int parts) {
  return n / static_cast<std::size_t>(parts) * static_cast<std::size_t>(piece) +
         n % static_cast<std::size_t>(parts) * static_cast<std::size_t>(piece) /
             static_cast<std::size_t>(parts);
}

/// Entries of a piece that are just as large as the smallest taken.
UNLATCH_HOST_DEVICE inline std::uint32_t count_least(const Selection& selection,
                                                     const float* values, std::size_t n, int piece,
                                                     int parts) {
  std::uint32_t found = 0;
  const std::size_t end = piece_begin(n, piece + 1, parts);
  for (std::size_t i = piece_begin(n, piece, parts); i < end; ++i) {
    if (magnitude(values[i]) == selection.least) ++found;
  }
  return found;
}

/// Moves the entries taken of a piece into the gradient, which is zero elsewhere. `before` counts
/// those as large as the smallest taken in the pieces before.
UNLATCH_HOST_DEVICE inline void take_largest(const Selection& selection, float* sums,
                                             float* momentum, float* gradient, std::size_t n,
                                             int piece, int parts, std::uint32_t before) {
  const std::size_t end = piece_begin(n, piece + 1, parts);
  for (std::size_t i = piece_begin(n, piece, parts); i < end; ++i) {
    const std::uint32_t bits = magnitude(sums[i]);
    bool taken = bits > selection.least;
    if (bits == selection.least) taken = before++ < selection.left;
    gradient[i] = taken ? sums[i] : 0;
    if (taken) sums[i] = momentum[i] = 0;
  }
}

}  // namespace unlatch::exec::cuda
