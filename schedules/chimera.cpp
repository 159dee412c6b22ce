// Chimera: two copies of the model run through the same ranks in opposite directions.
//
// Li and Hoefler, SC 2021 (arXiv 2107.06925), direct concatenation of units of P micro-batches. In
// slots of equal length, the j-th micro-batch of a direction in unit u has F on stage i in slot
// 2Pu + 2j + i and B in slot 2Pu + 2j + 2P-1-i, so the two directions never want the same slot.
// Idle P-2 slots where F and B take one each.
#include <algorithm>

#include "schedules/error.h"
#include "schedules/rank_order.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

struct Slot {
  int time;
  Op op;
  Stage stage;
};

void add_slots(std::vector<Slot>& slots, const Shape& shape, Stage k) {
  const int ranks = shape.ranks();
  const int i = shape.model_stage(k).value;
  for (int n = 0; n < shape.micro_batches / 2; ++n) {
    const int unit = n / (ranks / 2), j = n % (ranks / 2);
    const int start = 2 * ranks * unit + 2 * j;
    slots.push_back({start + i, Op::forward, k});
    slots.push_back({start + 2 * ranks - 1 - i, Op::backward, k});
  }
}

std::vector<RankOrder> orders(const Shape& shape) {
  const int ranks = shape.ranks();
  std::vector<RankOrder> all;
  for (int r = 0; r < ranks; ++r) {
    std::vector<Slot> slots;
    add_slots(slots, shape, Stage{r});
    add_slots(slots, shape, Stage{2 * ranks - 1 - r});
    std::ranges::sort(slots, {}, &Slot::time);
    RankOrder& order = all.emplace_back(shape.micro_batches / 2);
    for (const Slot& slot : slots) {
      slot.op == Op::forward ? order.forward(slot.stage) : order.backward(slot.stage);
    }
  }
  return all;
}

Schedule chimera(const Shape& shape, const Options&) {
  Schedule schedule("chimera", shape);
  place_in_snake(schedule);
  repeat_every_batch(schedule, orders(shape));
  return schedule;
}

void resolve(const Shape& shape, Options&) {
  const int ranks = shape.ranks();
  require(ranks % 2 == 0, "chimera needs an even number of ranks, not {}", ranks);
  require(shape.micro_batches % ranks == 0,
          "chimera takes micro-batches in units of one a rank: a multiple of {}, not {}", ranks,
          shape.micro_batches);
}

Promise promise(const Shape& shape, const Options&) {
  return synchronous_promise(shape, most_tapes(shape, orders(shape)));
}

}  // namespace

Method chimera_method() {
  return {.name = "chimera",
          .title = "Chimera",
          .source = "Li and Hoefler, SC 2021, arXiv 2107.06925",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .copies = 2,
          .staleness = "0",
          .memory = "rank: P/2+1 .. P tapes, 2 stages, 1 version",
          .keys = {},
          .resolve = resolve,
          .make = chimera,
          .promise = promise};
}

}  // namespace unlatch
