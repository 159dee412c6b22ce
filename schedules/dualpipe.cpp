// DualPipe: two copies of the model in opposite directions, W put off where it helps.
//
// DeepSeek-AI, DeepSeek-V3 technical report, 2024 (arXiv 2412.19437), and the repository DualPipe.
// Stage k of the second copy is on rank P-1-k, half of the micro-batches go each way. Idle
// (P/2-1)(FB + B - 3W), FB being F and B in a row; P+1 tapes a rank.
#include <algorithm>

#include "schedules/eight_steps.h"
#include "schedules/error.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

std::vector<RankOrder> orders(const Shape& shape) {
  const int ranks = shape.ranks();
  std::vector<RankOrder> all;
  for (int r = 0; r < ranks; ++r) {
    Stage first{r}, second{2 * ranks - 1 - r};
    if (r >= ranks / 2) std::swap(first, second);  // the second copy enters at this end
    const int near = std::min(r, ranks - 1 - r);
    all.push_back(eight_steps(near, ranks / 2, shape.micro_batches / 2, first, second));
  }
  return all;
}

Schedule dualpipe(const Shape& shape, const Options&) {
  Schedule schedule("dualpipe", shape);
  place_in_snake(schedule);
  repeat_every_batch(schedule, orders(shape));
  return schedule;
}

void resolve(const Shape& shape, Options&) {
  const int ranks = shape.ranks();
  require(ranks % 2 == 0, "dualpipe needs an even number of ranks, not {}", ranks);
  require(shape.micro_batches % 2 == 0 && shape.micro_batches >= 2 * ranks,
          "dualpipe needs an even number of micro-batches and at least two a rank: {} or more for "
          "{} ranks, not {}",
          2 * ranks, ranks, shape.micro_batches);
}

Promise promise(const Shape& shape, const Options&) {
  return synchronous_promise(shape, most_tapes(shape, orders(shape)), shape.ranks() - 2);
}

}  // namespace

Method dualpipe_method() {
  return {.name = "dualpipe",
          .title = "DualPipe",
          .source = "DeepSeek-AI 2024, arXiv 2412.19437, and repository DualPipe",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .copies = 2,
          .staleness = "0",
          .memory = "rank: P+1 tapes, 2 stages, 1 version",
          .keys = {},
          .resolve = resolve,
          .make = dualpipe,
          .promise = promise};
}

}  // namespace unlatch
