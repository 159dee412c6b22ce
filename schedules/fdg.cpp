// FDG: each iteration every stage forwards one batch and backwards an older, stored one.
//
// Zhuang et al., IEEE TNNLS 2022 (arXiv 1906.09108). Breaks all three locks. D_k = 2(K-1-k):
// order fb: staleness D_k, D_k+1 tapes; bf (backward first): max(0, D_k-1) and max(1, D_k) tapes.
// Arriving gradients are multiplied by the shrinking factor beta, which compounds down the stages.
#include <algorithm>

#include "schedules/delays.h"
#include "schedules/error.h"
#include "schedules/staggered.h"

namespace unlatch {
namespace {

Schedule fdg(const Shape& shape, const Options& options) {
  const std::vector<int> two(shape.stages - 1, 2);  // capacities 1 + p and 1 + q with p = q = 1
  Staggered staggered{
      .specification = "fdg",
      .lockstep = options.is("form", "lockstep"),
      .behind = {},
      .delay = delays(shape, 2, unbounded),
      .forward_capacity = two,
      .backward_capacity = two,
      .backward_first = options.is("order", "bf"),
      .weights = options.is("weights", "exact") ? Weights::as_forward : Weights::current};
  for (int k = 0; k < shape.stages; ++k) staggered.behind.push_back(k);
  Schedule schedule = staggered.make(shape);
  schedule.scale_gradients(options.number("shrink"));
  return schedule;
}

Promise promise(const Shape& shape, const Options& options) {
  std::vector<int> staleness = delays(shape, 2, shape.batches - 1);
  std::vector<int> tapes = plus_one(staleness);
  if (options.is("order", "bf")) {
    for (int k = 0; k < shape.stages; ++k) {
      const int delay = 2 * (shape.stages - 1 - k);
      staleness[k] = std::clamp(delay - 1, 0, shape.batches - 1);
      tapes[k] = std::clamp(delay, 1, shape.batches);
    }
  }
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {staleness, staleness, options.is("weights", "exact") ? plus_one(staleness) : one, tapes,
          zero};
}

}  // namespace

Method fdg_method() {
  return {.name = "fdg",
          .title = "Fully decoupled learning with delayed gradients",
          .source = "Zhuang et al., IEEE TNNLS 2022, arXiv 1906.09108",
          .breaks = {.forward = true, .backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "2(K-1-k); bf: max(0, 2(K-1-k)-1)",
          .memory = "2(K-1-k)+1 tapes and versions (exact); 1 version in_place",
          .keys = {{.name = "form",
                    .words = {"lockstep", "queue"},
                    .help = "barrier a iteration, or queues of two"},
                   {.name = "order",
                    .words = {"fb", "bf"},
                    .help = "forward or backward first in an iteration"},
                   {.name = "weights",
                    .words = {"exact", "in_place"},
                    .help = "weights in the input-gradient path: of the forward, or of now"},
                   {.name = "shrink",
                    .type = Key::Type::number,
                    .default_number = 1,
                    .help = "beta, 0 < beta <= 1: on gradients arriving at stages below the last"}},
          .resolve =
              [](const Shape&, Options& options) {
                const double beta = options.number("shrink");
                require(beta > 0 && beta <= 1, "fdg: shrink={} must lie in 0 < shrink <= 1", beta);
              },
          .make = fdg,
          .promise = promise};
}

}  // namespace unlatch
