// Precision: the number format of activations and their gradients on a GPU; weights, their
// gradients and the optimizer's state are float32 whatever it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace unlatch::exec {

/// tf32: float32 whose products are taken in a shorter format.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16 };

inline constexpr std::array<std::string_view, 4> precision_names = {"fp32", "tf32", "bf16", "fp16"};

constexpr std::string_view name(Precision precision) {
  return precision_names[static_cast<std::size_t>(precision)];
}
constexpr bool is_float32(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32;
}
constexpr std::size_t bytes_of(Precision precision) { return is_float32(precision) ? 4 : 2; }

}  // namespace unlatch::exec
