// Softmax cross entropy over plain rows of logits.
#pragma once

#include <cstdint>
#include <span>

#include "exec/stage_module.h"

namespace unlatch::exec {

/// Mean over the rows of `logits` [labels.size(), classes]. Unless empty, `gradient` (same shape)
/// becomes the gradient of that mean times `scale`. Throws Error for a label out of range.
Loss softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels,
                           double scale, std::span<float> gradient);

}  // namespace unlatch::exec
