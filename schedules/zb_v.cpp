// ZB-V: zero bubble within the memory of 1F1B, two stages a rank placed in a V.
//
// Qi et al., ICLR 2024 (arXiv 2401.10241), in the order that PyTorch's ScheduleZBVZeroBubble writes
// by hand. Rank r holds stages r and 2P-1-r, so the loss is on rank 0. No idle time where F=I=W.
#include <algorithm>

#include "schedules/rank_order.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

RankOrder order_of(Rank rank, const Shape& shape) {
  const int ranks = shape.ranks();
  const int r = rank.value;
  const Stage down{r}, up{2 * ranks - 1 - r};
  // Written for at least 2P-1 micro-batches; those that the batch has not are left out.
  const int written = std::max(2 * ranks - 1, shape.micro_batches);
  RankOrder order(shape.micro_batches);
  const auto split = [&](Stage k) { order.backward_input(k).backward_weight(k); };
  for (int i = 0; i < 2 * (ranks - r) - 1; ++i) order.forward(down);
  for (int i = 0; i < r; ++i) order.forward(up).forward(down);
  for (int i = 0; i < ranks - r; ++i) {
    order.forward(up);
    split(up);
  }
  while (order.forwards(up) < order.forwards(down) || order.forwards(down) < written) {
    if (order.forwards(down) < written) order.forward(down);
    split(down);
    order.forward(up);
    split(up);
  }
  for (int i = 0; i < r; ++i) order.backward_input(down).backward_input(up);
  for (int i = 0; i < ranks - r; ++i) split(down);
  for (int i = 0; i < shape.micro_batches; ++i) order.backward_weight(up);
  order.all_backward_weights();
  return order;
}

std::vector<RankOrder> orders(const Shape& shape) {
  std::vector<RankOrder> all;
  for (const Rank r : up_to<Rank>(shape.ranks())) all.push_back(order_of(r, shape));
  return all;
}

Schedule zb_v(const Shape& shape, const Options&) {
  Schedule schedule("zb-v", shape);
  place_in_snake(schedule);
  repeat_every_batch(schedule, orders(shape));
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  std::optional<int> idle;
  if (shape.micro_batches >= 2 * shape.ranks() - 1) idle = 0;
  return synchronous_promise(shape, most_tapes(shape, orders(shape)), idle);
}

}  // namespace

Method zb_v_method() {
  return {.name = "zb-v",
          .title = "Zero bubble V",
          .source = "Qi et al., ICLR 2024; PyTorch's ScheduleZBVZeroBubble",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = 2},
          .staleness = "0",
          .memory = "rank: min(2M, 2P) tapes, 1 version",
          .keys = {},
          .resolve = {},
          .make = zb_v,
          .promise = promise};
}

}  // namespace unlatch
