// ZB-auto: the automatic zero-bubble schedule, F, I and W ordered by a search under a memory limit.
//
// Qi et al., ICLR 2024 (arXiv 2401.10241), section 4: ZB-1p (limit=1) and ZB-2p (limit=2).
#include <algorithm>
#include <vector>

#include "schedules/assumed_times.h"
#include "schedules/schedules.h"
#include "schedules/zb_auto_search.h"

namespace unlatch {
namespace {

ZeroBubbleOrder found(const Shape& shape, const Options& options) {
  const std::vector<int>& times = options.list("times");
  const int share = options.is("limit", "2") ? 2 : 1;
  return search_zero_bubble(shape.stages, shape.micro_batches,
                            {.forward = static_cast<double>(times[0]),
                             .input_gradient = static_cast<double>(times[1]),
                             .weight_gradient = static_cast<double>(times[2]),
                             .transfer = options.number("comm"),
                             .weight_share = options.number("memory"),
                             .tape_limit = share * shape.stages});
}

Schedule zb_auto(const Shape& shape, const Options& options) {
  Schedule schedule("zb-auto", shape);
  repeat_every_batch(schedule, found(shape, options).orders);
  return schedule;
}

void resolve(const Shape&, Options& options) {
  resolve_assumed_times("zb-auto", options);
  const double memory = options.number("memory");
  require(memory >= 0 && memory <= 1,
          "zb-auto: memory is the share of a tape that W keeps, 0 to 1, not {}", memory);
}

Promise promise(const Shape& shape, const Options& options) {
  return synchronous_promise(shape, most_tapes(shape, found(shape, options).orders));
}

}  // namespace

Method zb_auto_method() {
  return {.name = "zb-auto",
          .title = "Zero bubble, searched under a memory limit",
          .source = "Qi et al., ICLR 2024, section 4 (ZB-1p, ZB-2p)",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .staleness = "0",
          .memory = "limit * K times the memory of a tape, 1 version",
          .keys = {{.name = "limit",
                    .words = {"1", "2"},
                    .help = "memory of a rank, in K tapes: 1 is ZB-1p, 2 is ZB-2p"},
                   {.name = "times",
                    .type = Key::Type::per_stage,
                    .help = "F/I/W as the search assumes them, whole numbers in any unit; "
                            "default 1/1/1"},
                   {.name = "comm",
                    .type = Key::Type::number,
                    .default_number = 0,
                    .help = "a transfer between ranks as the search assumes it, unit of times"},
                   {.name = "memory",
                    .type = Key::Type::number,
                    .default_number = 1,
                    .help = "share of a tape's memory that stays from I to W, 0 to 1"}},
          .resolve = resolve,
          .make = zb_auto,
          .promise = promise};
}

}  // namespace unlatch
