// Interleaved zero bubble: interleaved 1F1B with backward split in I and W, W filling the gaps.
//
// Qi et al., ICLR 2024 (arXiv 2401.10241), in the order of PyTorch's ScheduleInterleavedZeroBubble:
// half the warm-up of interleaved 1F1B, and rank r runs r steps of I before its first W. Idle
// (P-1)(F+I-W)/V of a rank's share.
#include <algorithm>

#include "schedules/rank_order.h"
#include "schedules/schedules.h"
#include "schedules/virtual_stages.h"

namespace unlatch {
namespace {

RankOrder order_of(Rank r, const Shape& shape, const Options& options) {
  const std::vector<int> chunks = chunk_of_step(shape, options);
  const int steps = static_cast<int>(chunks.size());
  const int group = static_cast<int>(options.number("group"));
  const int behind = shape.ranks() - 1 - r.value;
  const int warm_up = std::min(behind + (shape.chunks - 1) * group, steps);
  RankOrder order(shape.micro_batches);
  for (int step = 0; step < steps + warm_up; ++step) {
    if (step < steps) order.forward(stage_of_chunk(shape, chunks[step], r));
    if (step < warm_up) continue;
    const int back = step - warm_up;
    order.backward_input(stage_of_chunk(shape, shape.chunks - 1 - chunks[back], r));
    if (back >= r.value) order.backward_weight();
  }
  order.all_backward_weights();
  return order;
}

std::vector<RankOrder> orders(const Shape& shape, const Options& options) {
  std::vector<RankOrder> all;
  for (const Rank r : up_to<Rank>(shape.ranks())) all.push_back(order_of(r, shape, options));
  return all;
}

Schedule interleaved_zb(const Shape& shape, const Options& options) {
  Schedule schedule("interleaved-zb", shape);
  repeat_every_batch(schedule, orders(shape, options));
  return schedule;
}

Promise promise(const Shape& shape, const Options& options) {
  std::optional<int> idle;
  if (shape.micro_batches >= shape.ranks()) idle = shape.ranks() - 1;
  return synchronous_promise(shape, most_tapes(shape, orders(shape, options)), idle);
}

}  // namespace

Method interleaved_zb_method() {
  return {.name = "interleaved-zb",
          .title = "Interleaved zero bubble",
          .source = "Qi et al., ICLR 2024; PyTorch's ScheduleInterleavedZeroBubble",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = many_chunks},
          .staleness = "0",
          .memory = "rank: min(MV, (V-1)N + P) tapes, 1 version",
          .keys = group_keys(),
          .resolve = [](const Shape& shape,
                        Options& options) { resolve_groups("interleaved-zb", shape, options); },
          .make = interleaved_zb,
          .promise = promise};
}

}  // namespace unlatch
