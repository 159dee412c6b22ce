// DDG: the forward stays sequential; all stages run backward in parallel on delayed gradients.
//
// Huo et al., ICML 2018 (arXiv 1804.10574). Breaks the backward lock. Stage k, d_k = K-1-k:
// staleness d_k, d_k+1 tapes; versions d_k+1 (exact: backward reads the weights of its forward, as
// the paper's update rule says) or 1 (in_place, as code on old frameworks does).
#include "schedules/delayed_gradient.h"
#include "schedules/delays.h"

namespace unlatch {
namespace {

Schedule ddg(const Shape& shape, const Options& options) {
  return DelayedGradient{
      .specification = "ddg",
      .mailbox = options.is("form", "mailbox"),
      .weights = options.is("weights", "exact") ? Weights::as_forward : Weights::current}
      .make(shape);
}

Promise promise(const Shape& shape, const Options& options) {
  const std::vector<int> d = delays(shape, 1, shape.batches - 1);
  const std::vector<int> one(shape.stages, 1), zero(shape.stages, 0);
  return {d, d, options.is("weights", "exact") ? plus_one(d) : one, plus_one(d), zero};
}

}  // namespace

Method ddg_method() {
  return {.name = "ddg",
          .title = "Decoupled parallel backpropagation with delayed gradients",
          .source = "Huo et al., ICML 2018, arXiv 1804.10574",
          .breaks = {.backward = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "K-1-k",
          .memory = "K-k tapes; K-k versions exact, 1 in_place",
          .keys = {{.name = "form",
                    .words = {"lockstep", "mailbox"},
                    .help = "a barrier each iteration, or one-message mailboxes"},
                   {.name = "weights",
                    .words = {"exact", "in_place"},
                    .help = "weights in the input-gradient path: of the forward, or of now"}},
          .resolve = {},
          .make = ddg,
          .promise = promise};
}

}  // namespace unlatch
