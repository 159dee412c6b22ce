// Interleaved 1F1B: each rank holds V stages, so that the pipeline fills V times as fast.
//
// Narayanan et al., SC 2021, section 2.2.2 (Megatron-LM's virtual stages). Idle (P-1)(F+B)/V of a
// rank's share of the model; V times the messages of 1F1B. Two rules for M that is no multiple of
// the group: see virtual_stages.h.
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
  const int warm_up = std::min(2 * behind + (shape.chunks - 1) * group, steps);
  RankOrder order(shape.micro_batches);
  for (int step = 0; step < steps + warm_up; ++step) {
    if (step < steps) order.forward(stage_of_chunk(shape, chunks[step], r));
    if (step < warm_up) continue;
    order.backward(stage_of_chunk(shape, shape.chunks - 1 - chunks[step - warm_up], r));
  }
  return order;
}

std::vector<RankOrder> orders(const Shape& shape, const Options& options) {
  std::vector<RankOrder> all;
  for (const Rank r : up_to<Rank>(shape.ranks())) all.push_back(order_of(r, shape, options));
  return all;
}

Schedule interleaved_1f1b(const Shape& shape, const Options& options) {
  Schedule schedule("interleaved-1f1b", shape);
  repeat_every_batch(schedule, orders(shape, options));
  return schedule;
}

Promise promise(const Shape& shape, const Options& options) {
  std::optional<int> idle;
  if (shape.micro_batches >= shape.ranks()) idle = 3 * (shape.ranks() - 1);
  return synchronous_promise(shape, most_tapes(shape, orders(shape, options)), idle);
}

}  // namespace

Method interleaved_1f1b_method() {
  return {.name = "interleaved-1f1b",
          .title = "Interleaved 1F1B (virtual stages)",
          .source = "Narayanan et al., SC 2021, section 2.2.2",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = many_chunks},
          .staleness = "0",
          .memory = "rank: min(MV, 2(P-1-r) + (V-1)N + 1) tapes, 1 version",
          .keys = group_keys(),
          .resolve = [](const Shape& shape,
                        Options& options) { resolve_groups("interleaved-1f1b", shape, options); },
          .make = interleaved_1f1b,
          .promise = promise};
}

}  // namespace unlatch
