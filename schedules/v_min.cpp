// V-Min: the least activation memory of the V schedules, about a third of 1F1B's.
//
// Qi et al. 2024, "Pipeline parallelism with controllable memory" (arXiv 2405.15362). No rank holds
// more than floor((P+4)/3) micro-batches of its share of the model; idle about two thirds of
// 1F1B's.
#include <optional>
#include <vector>

#include "schedules/repeated_block.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

std::vector<RankOrder> orders(const Shape& shape) {
  const int p = shape.ranks();
  // Without the gap, tasks of one rank would meet in the same unit of the period.
  const int gap = p % 3 == 0 ? 2 : 0;
  std::vector<BlockStart> blocks;
  for (int r = 0; r < p; ++r) {
    blocks.push_back({.forward_down = r,
                      .forward_up = 2 * p - r - 1,
                      .input_up = 2 * p + gap + r,
                      .input_down = 4 * p + gap - r - 1});
  }
  return repeat_block(blocks, shape.micro_batches, 2 * ((p + 4) / 3));
}

Schedule v_min(const Shape& shape, const Options&) {
  return v_schedule("v-min", shape, orders(shape));
}

Promise promise(const Shape& shape, const Options&) {
  const int p = shape.ranks();
  std::optional<int> idle;  // measured, not derived: the paper has no formula
  if (p >= 3 && shape.micro_batches >= 2 * p) idle = 4 * p - (p % 3 == 0 ? 7 : 5);
  return synchronous_promise(shape, most_tapes(shape, orders(shape)), idle);
}

}  // namespace

Method v_min_method() {
  return {.name = "v-min",
          .title = "V-Min, controllable memory",
          .source = "Qi et al. 2024, arXiv 2405.15362",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = 2},
          .staleness = "0",
          .memory = "rank: 2*floor((P+4)/3) tapes, 1 version",
          .keys = {},
          .resolve = {},
          .make = v_min,
          .promise = promise};
}

}  // namespace unlatch
