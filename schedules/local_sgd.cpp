// Local SGD: every replica updates alone, and after every H updates their weights are averaged.
//
// Stich, ICLR 2019 (arXiv 1805.09767); modern.md 5.7. The optimizers' states stay local.
#include <cmath>

#include "schedules/error.h"
#include "schedules/whole_batch.h"

namespace unlatch {
namespace {

Schedule local_sgd(const Shape& shape, const Options& options) {
  Schedule schedule = whole_batch_schedule("local-sgd", shape);
  schedule.average_weights_every(static_cast<int>(options.number("steps")));
  return schedule;
}

void resolve(const Shape&, Options& options) {
  const double steps = options.number("steps");
  constexpr double most = 1e9;
  require(steps >= 1 && steps <= most && steps == std::floor(steps),
          "local-sgd: steps is {}, it must be a whole number of updates of at least 1", steps);
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
          .keys = {{.name = "steps",
                    .type = Key::Type::number,
                    .default_number = 4,
                    .help = "updates between two averages of the weights"}},
          .resolve = resolve,
          .make = local_sgd,
          .promise = whole_batch_promise};
}

}  // namespace unlatch
