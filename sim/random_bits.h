// Random bits: numbers that are a function of what they are drawn for, not of who asked before.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace unlatch::sim {

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input moves every bit
/// of the output.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Uniform in (0, 1), from the 53 upper bits.
inline double uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

inline double standard_normal(std::uint64_t bits) {  // Box and Muller 1958
  const double radius = std::sqrt(-2.0 * std::log(uniform(bits)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(mixed(bits)));
}

/// Numbers from one seed, none of which is mixed from another: draws mix what they are given.
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t next() { return mixed(seed_ ^ mixed(++count_)); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

}  // namespace unlatch::sim
