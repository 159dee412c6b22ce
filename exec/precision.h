// Precision: the number format of activations and their gradients on a GPU; weights, their
// gradients and the optimizer's state are float32 whatever it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unlatch::exec {

enum class Precision : std::uint8_t { fp32, bf16, fp16 };

constexpr std::size_t bytes_of(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

}  // namespace unlatch::exec
