// BP: one batch at a time flows up the stages and down again; every lock of back-propagation holds.
//
// Naive model parallelism. Utilisation 1/K, staleness 0, one tape and one weight version a rank.
#include "schedules/whole_batch.h"

namespace unlatch {

Method bp_method() {
  return {
      .name = "bp",
      .title = "Back-propagation, naive model parallelism",
      .source = "Rumelhart et al. 1986",
      .breaks = {},
      .synchronous = true,
      .uses_micro_batches = false,
      .staleness = "0",
      .memory = "1 tape, 1 version",
      .keys = {},
      .resolve = {},
      .make = [](const Shape& shape, const Options&) { return whole_batch_schedule("bp", shape); },
      .promise = whole_batch_promise};
}

}  // namespace unlatch
