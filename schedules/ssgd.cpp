// SSGD: synchronous data parallelism; the replicas' gradients are summed before every update.
//
// Chen et al. 2016 (arXiv 1604.00981); modern.md 5.1, all-reduce graph. Replicas come from
// --replicas, as for every other schedule; this one trains a batch's share in one piece.
#include "schedules/whole_batch.h"

namespace unlatch {

Method ssgd_method() {
  return {.name = "ssgd",
          .title = "Synchronous SGD on replicas",
          .source = "Chen et al. 2016, arXiv 1604.00981",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = false,
          .staleness = "0",
          .memory = "1 tape, 1 version",
          .keys = {},
          .resolve = {},
          .make = [](const Shape& shape,
                     const Options&) { return whole_batch_schedule("ssgd", shape); },
          .promise = whole_batch_promise};
}

}  // namespace unlatch
