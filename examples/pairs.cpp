// Pairs: every stage runs its micro-batches two by two, forwards before backwards.
#include "schedules/error.h"
#include "schedules/registry.h"

namespace unlatch {
namespace {

Schedule pairs(const Shape& shape, const Options&) {
  Schedule schedule("pairs", shape);
  for (const Stage k : up_to<Stage>(shape.stages)) {
    Program& program = schedule.of(k);
    for (MicroBatch i{0}; i.value < shape.all_micro_batches(); i = i + 2) {
      program.forward(k, i).forward(k, i + 1).backward(k, i).backward(k, i + 1);
      const bool ends_batch = (i.value + 2) % shape.micro_batches == 0;
      if (ends_batch) program.update(k, i + 1).next_step();
    }
  }
  return schedule;
}

void resolve(const Shape& shape, Options&) {
  require(shape.micro_batches % 2 == 0, "pairs: {} micro-batches do not come in pairs",
          shape.micro_batches);
}

Promise promise(const Shape& shape, const Options&) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1), two(shape.stages, 2);
  return {zero, zero, one, two, zero};  // staleness of F and of weights, versions, tapes, inputs
}

}  // namespace

Method pairs_method() {
  return {.name = "pairs",
          .title = "Two forwards, two backwards",
          .source = "an example",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .staleness = "0",
          .memory = "2 tapes, 1 version",
          .keys = {},
          .resolve = resolve,
          .make = pairs,
          .promise = promise};
}

}  // namespace unlatch
