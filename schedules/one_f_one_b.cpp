// 1F1B with flush: after a warm-up, every rank alternates one forward and one backward.
//
// Narayanan et al., SC 2021, section 2.2.1 (PipeDream-Flush, DAPPLE). The bubble of GPipe; rank r
// keeps min(M, P-r) tapes instead of M.
#include <algorithm>

#include "schedules/schedules.h"

namespace unlatch {
namespace {

Schedule one_f_one_b(const Shape& shape, const Options&) {
  const int m = shape.micro_batches;
  Schedule schedule("1f1b", shape);
  for (const Stage k : up_to<Stage>(shape.stages)) {
    Program& program = schedule.of(k);
    const int warm_up = std::min(m, shape.last_stage() - k);
    for (MicroBatch first{0}; first.value < shape.all_micro_batches(); first = first + m) {
      const MicroBatch end = first + m;
      for (const MicroBatch i : between(first, first + warm_up)) program.forward(k, i);
      for (const MicroBatch i : between(first + warm_up, end)) {
        program.forward(k, i).backward(k, i - warm_up);
      }
      for (const MicroBatch i : between(end - warm_up, end)) program.backward(k, i);
      program.update(k, end - 1).next_step();
    }
  }
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  std::vector<int> tapes;
  for (int k = 0; k < shape.stages; ++k) {
    tapes.push_back(std::min(shape.micro_batches, shape.stages - k));
  }
  return {zero, zero, one, tapes, zero};
}

}  // namespace

Method one_f_one_b_method() {
  return {.name = "1f1b",
          .title = "One forward, one backward, with flush",
          .source = "Narayanan et al., SC 2021, section 2.2.1",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .staleness = "0",
          .memory = "min(M, K-k) tapes, 1 version",
          .keys = {},
          .resolve = {},
          .make = one_f_one_b,
          .promise = promise};
}

}  // namespace unlatch
