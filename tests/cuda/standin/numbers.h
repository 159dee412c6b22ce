// Tensors of float, bfloat16 or half numbers as floats, and products as tensor cores take them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace unlatch::standin {

enum class Number { float32, bfloat16, half };

inline std::size_t bytes_of(Number number) { return number == Number::float32 ? 4 : 2; }

/// The nearest float whose last bits, so many, are 0; ties go to the even one.
inline float rounded(float x, unsigned bits) {
  if (!std::isfinite(x)) return x;
  const auto word = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t half_way = (1U << (bits - 1)) - 1 + ((word >> bits) & 1);
  return std::bit_cast<float>((word + half_way) >> bits << bits);
}
inline float as_tf32(float x) { return rounded(x, 13); }

inline std::vector<float> floats(const void* from, Number number, std::size_t n) {
  std::vector<float> values(n);
  if (number == Number::float32) {
    if (n > 0) std::memcpy(values.data(), from, n * sizeof(float));
    return values;
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t word;
    std::memcpy(&word, static_cast<const std::uint16_t*>(from) + i, sizeof(word));
    values[i] = number == Number::bfloat16
                    ? std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16)
                    : static_cast<float>(std::bit_cast<_Float16>(word));
  }
  return values;
}

/// to = alpha * values + beta * to.
inline void blend(const std::vector<float>& values, float alpha, float beta, void* to,
                  Number number) {
  const std::vector<float> before =
      beta == 0 ? std::vector<float>(values.size()) : floats(to, number, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = alpha * values[i] + (beta == 0 ? 0 : beta * before[i]);
    if (number == Number::float32) {
      static_cast<float*>(to)[i] = x;
    } else {
      static_cast<std::uint16_t*>(to)[i] =
          number == Number::bfloat16
              ? static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded(x, 16)) >> 16)
              : std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
    }
  }
}

}  // namespace unlatch::standin
