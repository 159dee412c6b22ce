// Local SGD: every replica updates alone; after every H updates, and at the end, weights are
// averaged.
//
// Stich, ICLR 2019 (arXiv 1805.09767); modern.md 5.7. The optimizers' states stay local.
#include "schedules/data_parallel.h"

namespace unlatch {
namespace {

constexpr int most = 1'000'000'000;

Schedule local_sgd(const Shape& shape, const Options& options) {
  Schedule schedule = schedule_inside("local-sgd", shape, options);
  Agreement& agreement = schedule.learning().agreement;
  agreement.kind = Agreement::Kind::average;
  agreement.period = whole_number(options, "local-sgd", "steps", 1, most);
  return schedule;
}

void resolve(const Shape& shape, Options& options) {
  require_inside(shape, options);
  whole_number(options, "local-sgd", "steps", 1, most);
}

}  // namespace

Method local_sgd_method() {
  return {.name = "local-sgd",
          .title = "Local SGD on replicas",
          .source = "Stich, ICLR 2019, arXiv 1805.09767",
          .breaks = {},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "0; replicas differ for steps - 1 updates",
          .memory = "1 tape, 1 version",
          .keys = {pipeline_inside(),
                   {.name = "steps",
                    .type = Key::Type::number,
                    .default_number = 4,
                    .help = "updates between two averages of the weights"}},
          .resolve = resolve,
          .make = local_sgd,
          .promise = promise_inside};
}

}  // namespace unlatch
