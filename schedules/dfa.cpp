// DFA: every stage but the last trains on a fixed random map of the output error; nothing is sent
// from stage to stage on the way back.
//
// Noekland, NeurIPS 2016 (arXiv 1609.01596). Stage k < K-1 takes B_k e for the gradient of its
// output, e the gradient of the loss at the output of the last stage, B_k random and never trained;
// within a stage and on the last one gradients are the true ones. Breaks the backward and update
// locks: as soon as the last forward has found e, all backwards run at once, each followed by its
// update. Staleness 0, one tape. With links, e is one message of the last stage to all others.
#include "schedules/schedules.h"

namespace unlatch {
namespace {

Schedule dfa(const Shape& shape, const Options&) {
  Schedule schedule("dfa", shape);
  schedule.learning().local_gradients.source = GradientSource::feedback;
  for (const Stage k : up_to<Stage>(shape.stages)) {
    for (const MicroBatch n : up_to<MicroBatch>(shape.batches)) {
      schedule.of(k).forward(k, n).backward(k, n).update(k, n).next_step();
    }
  }
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {zero, zero, one, one, zero};
}

}  // namespace

Method dfa_method() {
  return {.name = "dfa",
          .title = "Direct feedback alignment",
          .source = "Noekland, NeurIPS 2016, arXiv 1609.01596",
          .breaks = {.backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "0",
          .memory = "1 tape, 1 version, a fixed random matrix",
          .keys = {},
          .resolve = {},
          .make = dfa,
          .promise = promise};
}

}  // namespace unlatch
