// BP: one batch at a time flows up the stages and down again; every lock of back-propagation holds.
//
// Naive model parallelism. Utilisation 1/K, staleness 0, one tape and one weight version a rank.
#include "schedules/schedules.h"

namespace unlatch {
namespace {

Schedule bp(const Shape& shape, const Options&) {
  Schedule schedule("bp", shape);
  for (const Stage k : up_to<Stage>(shape.stages)) {
    Program& program = schedule.of(k);
    for (const MicroBatch n : up_to<MicroBatch>(shape.batches)) {
      program.forward(k, n).backward(k, n).update(k, n).next_step();
    }
  }
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {zero, zero, one, one, zero};
}

}  // namespace

Method bp_method() {
  return {.name = "bp",
          .title = "Back-propagation, naive model parallelism",
          .source = "Rumelhart et al. 1986",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = false,
          .staleness = "0",
          .memory = "1 tape, 1 version",
          .keys = {},
          .resolve = {},
          .make = bp,
          .promise = promise};
}

}  // namespace unlatch
