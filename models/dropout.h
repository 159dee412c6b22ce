// What dropout leaves out: a function of (seed, batch, dropout of the model, sample, element)
// alone, so that no split, schedule or replay changes it. No includes that nvcc cannot take.
#pragma once

#include "models/random.h"

namespace unlatch::models {

/// The random numbers of one micro-batch.
struct Draw {
  std::uint64_t key = 0;          ///< of the seed and the batch
  std::int64_t first_sample = 0;  ///< place in the batch of its first sample
};

constexpr Draw draw_of(std::uint64_t seed, int batch, std::int64_t first_sample) {
  constexpr std::uint64_t stream = 0x64726F706F7574;
  return {derived_key(derived_key(seed, stream), static_cast<std::uint64_t>(batch)), first_sample};
}

/// Of one dropout on one micro-batch.
struct DropoutMask {
  std::uint64_t key = 0;
  std::int64_t first_sample = 0;
  std::uint64_t limit = 0;  ///< of 2^32 numbers, how many mean 0

  /// Sample n of the micro-batch, element of [channels, height, width].
  UNLATCH_HOST_DEVICE constexpr bool keeps(std::int64_t n, std::int64_t element) const {
    const std::uint64_t sample = derived_key(key, static_cast<std::uint64_t>(first_sample + n));
    return (random_bits(sample, static_cast<std::uint64_t>(element)) >> 32) >= limit;
  }
};

constexpr DropoutMask mask_of(double probability, int number, const Draw& draw) {
  return {derived_key(draw.key, static_cast<std::uint64_t>(number)), draw.first_sample,
          static_cast<std::uint64_t>(probability * 0x1.0p32)};
}

/// What is left is multiplied by it.
constexpr float kept_factor(double probability) {
  return static_cast<float>(1 / (1 - probability));
}

}  // namespace unlatch::models
