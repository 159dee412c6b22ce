// ASGD: a server applies every replica's gradient on its own, and only that replica waits for it.
//
// Graph: modern.md 5.2. Delay compensation (DC-ASGD): Zheng et al., ICML 2017 (arXiv 1609.08326).
// The updates come in the order of simulated time, in turn where times are equal, so that a run is
// reproducible; between a replica's pull and its update lie R - 1 updates of the others.
#include "schedules/data_parallel.h"
#include "schedules/error.h"

namespace unlatch {
namespace {

Compensation compensation(const Options& options) {
  return {.lambda = options.number("lambda"),
          .adaptive = options.is("compensation", "adaptive"),
          .decay = options.number("decay")};
}

Schedule asgd(const Shape& shape, const Options& options) {
  Schedule schedule = schedule_inside("asgd", shape, options);
  Agreement& agreement = schedule.learning().agreement;
  agreement.kind = Agreement::Kind::server;
  if (!options.is("compensation", "none")) agreement.compensation = compensation(options);
  return schedule;
}

void resolve(const Shape& shape, Options& options) {
  require_inside(shape, options);
  const double lambda = options.number("lambda");
  const double decay = options.number("decay");
  require(lambda >= 0, "asgd: lambda={} must not be negative", lambda);
  require(decay >= 0 && decay < 1, "asgd: decay={} must lie in [0, 1)", decay);
  // The constants of the authors' experiments (modern.md 5.4).
  if (lambda == 0 && options.is("compensation", "constant")) options.set("lambda", 0.04);
  if (lambda == 0 && options.is("compensation", "adaptive")) options.set("lambda", 2.0);
}

}  // namespace

Method asgd_method() {
  return {.name = "asgd",
          .title = "Asynchronous SGD on replicas",
          .source = "Dean et al., NeurIPS 2012; compensation: Zheng et al., ICML 2017",
          .breaks = {.update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "R-1",
          .memory = "1 tape, 1 version, a server's weights",
          .keys = {pipeline_inside(),
                   {.name = "compensation",
                    .words = {"none", "constant", "adaptive"},
                    .help = "correction of stale gradients (DC-ASGD)"},
                   {.name = "lambda",
                    .type = Key::Type::number,
                    .help = "its strength; 0: 0.04 constant, 2 adaptive",
                    .only_with = OnlyWith{"compensation", {"constant", "adaptive"}}},
                   {.name = "decay",
                    .type = Key::Type::number,
                    .default_number = 0.95,
                    .help = "of the mean square of an adaptive one",
                    .only_with = OnlyWith{"compensation", {"adaptive"}}}},
          .resolve = resolve,
          .make = asgd,
          .promise = promise_inside,
          .promise_of_replicas = [](const Shape& whole, const Options&, Promise& promise) {
            promise_served(whole, Agreement::no_bound, promise);
          }};
}

}  // namespace unlatch
