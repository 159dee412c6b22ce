// Interleaved zero bubble: interleaved 1F1B with backward split in I and W, W filling the gaps.
//
// Qi et al., ICLR 2024 (arXiv 2401.10241), in the order of PyTorch's ScheduleInterleavedZeroBubble:
// half the warm-up of interleaved 1F1B, and rank r runs r steps of I before its first W. Idle
// (P-1)(F+I-W)/V of a rank's share.
#include "schedules/schedules.h"
#include "schedules/virtual_stages.h"

namespace unlatch {
namespace {

std::vector<RankOrder> orders(const Shape& shape, const Options& options) {
  return interleaved_orders(shape, options, 1, [](RankOrder& order, Stage k, int step, Rank r) {
    order.backward_input(k);
    if (step >= r.value) order.backward_weight();
  });
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
