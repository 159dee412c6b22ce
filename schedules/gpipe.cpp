// GPipe: all micro-batches forward, then all backward, one synchronous update a batch.
//
// Huang et al., NeurIPS 2019 (arXiv 1811.06965); recompute modes as torchgpipe names them:
// except_last keeps the tape of the last micro-batch. R needs no gradient, so it may run before
// one arrives. Bubble (K-1)/(M+K-1) without recompute.
#include <algorithm>

#include "schedules/schedules.h"

namespace unlatch {
namespace {

Schedule gpipe(const Shape& shape, const Options& options) {
  const bool always = options.is("recompute", "always");
  const bool except_last = options.is("recompute", "except_last");
  const bool ascending = options.is("backward", "ascending");
  const int m = shape.micro_batches;
  Schedule schedule("gpipe", shape);
  for (const Stage k : up_to<Stage>(shape.stages)) {
    Program& program = schedule.of(k);
    for (MicroBatch first{0}; first.value < shape.all_micro_batches(); first = first + m) {
      const MicroBatch last = first + (m - 1);
      for (const MicroBatch i : between(first, first + m)) program.forward(k, i);
      for (int j = 0; j < m; ++j) {
        const MicroBatch i = ascending ? first + j : last - j;
        if (always || (except_last && i != last)) program.recompute(k, i);
        program.backward(k, i);
      }
      program.update(k, last).next_step();
    }
  }
  return schedule;
}

Promise promise(const Shape& shape, const Options& options) {
  const int m = shape.micro_batches;
  const bool never = options.is("recompute", "never");
  const bool except_last = options.is("recompute", "except_last");
  const bool recomputes = !never && !(except_last && m == 1);
  const int kept = except_last && m > 1 && options.is("backward", "ascending") ? 2 : 1;
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {zero, zero, one, std::vector<int>(shape.stages, never ? m : kept),
          std::vector<int>(shape.stages, recomputes ? m : 0)};
}

}  // namespace

Method gpipe_method() {
  return {.name = "gpipe",
          .title = "GPipe",
          .source = "Huang et al., NeurIPS 2019, arXiv 1811.06965",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .staleness = "0",
          .memory = "M tapes; recomputing: M inputs + 1 tape; 1 version",
          .keys = {{.name = "recompute",
                    .words = {"never", "except_last", "always"},
                    .help = "which micro-batches rebuild their tape before B"},
                   {.name = "backward",
                    .words = {"descending", "ascending"},
                    .help = "order of the backwards of a batch"}},
          .resolve = {},
          .make = gpipe,
          .promise = promise};
}

}  // namespace unlatch
