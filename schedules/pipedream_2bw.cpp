// PipeDream-2BW: 1F1B without flush; each batch runs on weights one update old, on every rank.
//
// Narayanan et al., ICML 2021 (arXiv 2006.09503). Batch b is read and differentiated at version
// max(0, b-1) and makes version b+1: two versions a rank, whatever P. Needs M >= P, so that a rank
// has done the updates that its forwards read.
#include <algorithm>

#include "schedules/error.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

Schedule pipedream_2bw(const Shape& shape, const Options&) {
  const int m = shape.micro_batches;
  const int all = shape.all_micro_batches();
  Schedule schedule("pipedream-2bw", shape);
  for (const Stage k : up_to<Stage>(shape.stages)) {
    const int warm_up = shape.last_stage() - k;
    // A run that stops early leaves out the backwards of a batch it cannot finish.
    const int steps = shape.drain ? all + warm_up : (all - warm_up) / m * m + warm_up;
    Program& program = schedule.of(k);
    for (int i = 0; i < std::max(all, steps); ++i) {
      if (i < all) program.forward(k, {i}, std::max(0, i / m - 1));
      const MicroBatch n{i - warm_up};
      if (n.value < 0 || i >= steps) continue;
      program.backward(k, n, Weights::as_forward);
      if ((n.value + 1) % m == 0) program.update(k, n).next_step();
    }
  }
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  const int delay = std::min(1, shape.batches - 1);
  const std::vector<int> staleness(shape.stages, delay), zero(shape.stages, 0);
  std::vector<int> tapes;
  for (int k = 0; k < shape.stages; ++k) tapes.push_back(shape.stages - k);
  return {staleness, staleness, std::vector<int>(shape.stages, 1 + delay), tapes, zero};
}

}  // namespace

Method pipedream_2bw_method() {
  return {.name = "pipedream-2bw",
          .title = "PipeDream with double-buffered weights",
          .source = "Narayanan et al., ICML 2021, arXiv 2006.09503",
          .breaks = {.forward = true, .backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = true,
          .staleness = "1",
          .memory = "K-k tapes, 2 versions",
          .keys = {},
          .resolve =
              [](const Shape& shape, Options&) {
                require(shape.micro_batches >= shape.stages,
                        "pipedream-2bw: {} micro-batches a batch are fewer than the {} ranks; its "
                        "weights of one update ago need --microbatches {} or more",
                        shape.micro_batches, shape.stages, shape.stages);
              },
          .make = pipedream_2bw,
          .promise = promise};
}

}  // namespace unlatch
