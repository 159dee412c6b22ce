// DualPipeV: the two directions of DualPipe folded into a V, so that no weights are kept twice.
//
// DeepSeek-AI 2025, repository DualPipe ("cut in half"); PyTorch's ScheduleDualPipeV. Rank r holds
// stages r and 2P-1-r. Idle (P-1)(FB + B - 3W) of one stage's times, FB being F and B in a row.
#include "schedules/eight_steps.h"
#include "schedules/error.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

std::vector<RankOrder> orders(const Shape& shape) {
  std::vector<RankOrder> all;
  const int ranks = shape.ranks();
  for (int r = 0; r < ranks; ++r) {
    all.push_back(eight_steps(r, ranks, shape.micro_batches, Stage{r}, Stage{2 * ranks - 1 - r}));
  }
  return all;
}

Schedule dualpipev(const Shape& shape, const Options&) {
  Schedule schedule("dualpipev", shape);
  place_in_snake(schedule);
  repeat_every_batch(schedule, orders(shape));
  return schedule;
}

void resolve(const Shape& shape, Options&) {
  require(shape.micro_batches >= 2 * shape.ranks(),
          "dualpipev needs at least two micro-batches a rank: {} for {} ranks, not {}; raise "
          "--microbatches or take fewer ranks",
          2 * shape.ranks(), shape.ranks(), shape.micro_batches);
}

Promise promise(const Shape& shape, const Options&) {
  return synchronous_promise(shape, most_tapes(shape, orders(shape)), 2 * (shape.ranks() - 1));
}

}  // namespace

Method dualpipev_method() {
  return {.name = "dualpipev",
          .title = "DualPipeV",
          .source = "DeepSeek-AI 2025, repository DualPipe; PyTorch's ScheduleDualPipeV",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = 2},
          .staleness = "0",
          .memory = "rank: 2P+1 tapes, 1 version",
          .keys = {},
          .resolve = resolve,
          .make = dualpipev,
          .promise = promise};
}

}  // namespace unlatch
