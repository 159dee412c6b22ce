// FR: DDG's schedule, but a stage keeps only inputs and replays the forward with today's weights.
//
// Huo et al., NeurIPS 2018 (arXiv 1807.04511). Breaks the backward lock. Stage k, d_k = K-1-k:
// forward staleness d_k, weight staleness 0, d_k+1 inputs and one tape, one version.
#include "schedules/delayed_gradient.h"
#include "schedules/delays.h"

namespace unlatch {
namespace {

Schedule fr(const Shape& shape, const Options& options) {
  return DelayedGradient{
      .specification = "fr", .mailbox = options.is("form", "mailbox"), .replay = true}
      .make(shape);
}

Promise promise(const Shape& shape, const Options&) {
  const std::vector<int> d = delays(shape, 1, shape.batches - 1);
  const std::vector<int> one(shape.stages, 1), zero(shape.stages, 0);
  return {d, zero, one, one, shape.stages > 1 ? plus_one(d) : zero};
}

}  // namespace

Method fr_method() {
  return {.name = "fr",
          .title = "Features replay",
          .source = "Huo et al., NeurIPS 2018, arXiv 1807.04511",
          .breaks = {.backward = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "K-1-k",
          .memory = "K-k inputs + 1 tape, 1 version",
          .keys = {{.name = "form",
                    .words = {"lockstep", "mailbox"},
                    .help = "a barrier each iteration, or one-message mailboxes"}},
          .resolve = {},
          .make = fr,
          .promise = promise};
}

}  // namespace unlatch
