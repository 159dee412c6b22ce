// Counter-based random numbers: the n-th number of a key, the same on every machine and thread.
#pragma once

#include <cstdint>

#include "models/host_device.h"

namespace unlatch::models {

/// Finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection that mixes all bits.
UNLATCH_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Number `counter` of the stream of `key`: SplitMix64 started at `key`.
UNLATCH_HOST_DEVICE constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  return mix(key + (counter + 1) * 0x9E3779B97F4A7C15u);
}

/// Key of a stream of its own for every (key, part).
UNLATCH_HOST_DEVICE constexpr std::uint64_t derived_key(std::uint64_t key, std::uint64_t part) {
  return mix(random_bits(key, part) ^ 0xD1B54A32D192ED03u);
}

/// Uniform in [0, 1), all 53 bits of it.
UNLATCH_HOST_DEVICE constexpr double random_uniform(std::uint64_t key, std::uint64_t counter) {
  return static_cast<double>(random_bits(key, counter) >> 11) * 0x1.0p-53;
}

}  // namespace unlatch::models
