// FDG: each iteration every stage forwards one batch and backwards an older, stored one.
//
// Zhuang et al., IEEE TNNLS 2022 (arXiv 1906.09108). Breaks all three locks. D_k = 2(K-1-k):
// order fb: staleness D_k, D_k+1 tapes; bf (backward first): max(0, D_k-1) and max(1, D_k) tapes.
// Arriving gradients are multiplied by the shrinking factor beta, which compounds down the stages.
#include "schedules/fdg_family.h"

namespace unlatch {
namespace {

Schedule fdg(const Shape& shape, const Options& options) {
  return fdg_schedule("fdg", shape, options);
}

Promise promise(const Shape& shape, const Options& options) {
  std::vector<int> staleness = fdg_delays(shape, options);
  for (int& delay : staleness) delay = std::min(delay, shape.batches - 1);
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {staleness, staleness, options.is("weights", "exact") ? plus_one(staleness) : one,
          fdg_tapes(shape, options), zero};
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
          .keys = fdg_keys(),
          .resolve = [](const Shape&, Options& options) { check_shrink("fdg", options); },
          .make = fdg,
          .promise = promise};
}

}  // namespace unlatch
