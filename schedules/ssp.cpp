// SSP: ASGD in which no replica gets more than `bound` batches ahead of the slowest.
//
// Ho et al., NeurIPS 2013; graph: modern.md 5.3. A replica that has pushed batch c starts batch c+1
// when all others have pushed batch c - bound, and pulls then. 0: all keep step.
#include "schedules/data_parallel.h"

namespace unlatch {
namespace {

constexpr int most = 1'000'000;

Schedule ssp(const Shape& shape, const Options& options) {
  Schedule schedule = schedule_inside("ssp", shape, options);
  Agreement& agreement = schedule.learning().agreement;
  agreement.kind = Agreement::Kind::server;
  agreement.bound = whole_number(options, "ssp", "bound", 0, most);
  return schedule;
}

void resolve(const Shape& shape, Options& options) {
  require_inside(shape, options);
  whole_number(options, "ssp", "bound", 0, most);
}

}  // namespace

Method ssp_method() {
  return {.name = "ssp",
          .title = "Stale synchronous parallel",
          .source = "Ho et al., NeurIPS 2013",
          .breaks = {.update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "R-1; bound=0: the replica's number",
          .memory = "1 tape, 1 version, a server's weights",
          .keys = {pipeline_inside(),
                   {.name = "bound",
                    .type = Key::Type::number,
                    .default_number = 1,
                    .help = "batches that a replica may be ahead of the slowest"}},
          .resolve = resolve,
          .make = ssp,
          .promise = promise_inside,
          .promise_of_replicas = [](const Shape& whole, const Options& options, Promise& promise) {
            promise_served(whole, whole_number(options, "ssp", "bound", 0, most), promise);
          }};
}

}  // namespace unlatch
