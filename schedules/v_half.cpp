// V-Half: about half of 1F1B's activation memory, two stages a rank placed in a V.
//
// Qi et al. 2024, "Pipeline parallelism with controllable memory" (arXiv 2405.15362). No rank holds
// more than floor((P+2)/2) micro-batches of its share of the model; idle about half of 1F1B's.
#include <optional>
#include <vector>

#include "schedules/repeated_block.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

std::vector<RankOrder> orders(const Shape& shape) {
  const int p = shape.ranks();
  // Without the gap, tasks of one rank would meet in the same unit of the period.
  const int gap = p % 2 == 0 ? 3 : 0;
  std::vector<BlockStart> blocks;
  for (int r = 0; r < p; ++r) {
    blocks.push_back({.forward_down = 2 * r,
                      .forward_up = 3 * p - r - 2,
                      .input_up = 3 * p + gap + 2 * r - 1,
                      .input_down = 6 * p + gap - r - 2});
  }
  return repeat_block(blocks, shape.micro_batches, 2 * ((p + 2) / 2));
}

Schedule v_half(const Shape& shape, const Options&) {
  return v_schedule("v-half", shape, orders(shape));
}

Promise promise(const Shape& shape, const Options&) {
  const int p = shape.ranks();
  std::optional<int> idle;  // measured, not derived: the paper has no formula
  if (p >= 3 && shape.micro_batches >= 2 * p) idle = 3 * p - (p % 2 == 0 ? 7 : 4);
  return synchronous_promise(shape, most_tapes(shape, orders(shape)), idle);
}

}  // namespace

Method v_half_method() {
  return {.name = "v-half",
          .title = "V-Half, controllable memory",
          .source = "Qi et al. 2024, arXiv 2405.15362",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = 2},
          .staleness = "0",
          .memory = "rank: 2*floor((P+2)/2) tapes, 1 version",
          .keys = {},
          .resolve = {},
          .make = v_half,
          .promise = promise};
}

}  // namespace unlatch
