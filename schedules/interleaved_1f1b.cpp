// Interleaved 1F1B: each rank holds V stages, so that the pipeline fills V times as fast.
//
// Narayanan et al., SC 2021, section 2.2.2 (Megatron-LM's virtual stages). Idle (P-1)(F+B)/V of a
// rank's share of the model; V times the messages of 1F1B. Two rules for M that is no multiple of
// the group: see virtual_stages.h.
#include "schedules/schedules.h"
#include "schedules/virtual_stages.h"

namespace unlatch {
namespace {

std::vector<RankOrder> orders(const Shape& shape, const Options& options) {
  return interleaved_orders(shape, options, 2,
                            [](RankOrder& order, Stage k, int, Rank) { order.backward(k); });
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
