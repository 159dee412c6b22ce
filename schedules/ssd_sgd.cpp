// SSD-SGD: replicas step their own weights (GLU) while a server sums their gradients, and pull the
// server's weights every `delay` batches; synchronous for the first `warmup` batches.
//
// Xu et al. 2020 (arXiv 2012.05396); modern.md 5.5. delay=1 is OD-SGD (arXiv 2005.06728). The two
// local steps are the two forms of the authors' code: a (Python) and b (C++).
#include "schedules/data_parallel.h"
#include "schedules/error.h"

namespace unlatch {
namespace {

constexpr int most = 1'000'000'000;

LocalStep local_step(const Options& options) {
  LocalStep step{.own = 1, .server = 0.5, .rate = options.number("local_rate")};
  if (options.is("glu", "a")) {
    step.own = 2;
    step.server = 0.5 / 4;  // b / n
    step.decays_pre = true;
  }
  step.decay = options.number("local_decay");
  return step;
}

Schedule ssd_sgd(const Shape& shape, const Options& options) {
  Schedule schedule = schedule_inside("ssd-sgd", shape, options);
  Agreement& agreement = schedule.learning().agreement;
  agreement.kind = Agreement::Kind::delayed;
  agreement.period = whole_number(options, "ssd-sgd", "delay", 1, most);
  agreement.warm_up = whole_number(options, "ssd-sgd", "warmup", 0, most);
  agreement.local_step = local_step(options);
  return schedule;
}

void resolve(const Shape& shape, Options& options) {
  require_inside(shape, options);
  whole_number(options, "ssd-sgd", "delay", 1, most);
  whole_number(options, "ssd-sgd", "warmup", 0, most);
  for (const std::string_view key : {"local_rate", "local_decay"}) {
    require(options.number(key) >= 0, "ssd-sgd: {}={} must not be negative", key,
            options.number(key));
  }
}

}  // namespace

Method ssd_sgd_method() {
  return {.name = "ssd-sgd",
          .title = "Several-steps-delay SGD (delay=1: OD-SGD)",
          .source = "Xu et al. 2020, arXiv 2012.05396",
          .breaks = {.update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "0; replicas differ for delay - 1 updates",
          .memory = "1 tape, 1 version, 2 gradients, a server's weights",
          .keys = {pipeline_inside(),
                   {.name = "delay",
                    .type = Key::Type::number,
                    .default_number = 5,
                    .help = "batches between two pulls of the server's weights"},
                   {.name = "warmup",
                    .type = Key::Type::number,
                    .default_number = 500,
                    .help = "synchronous batches at the start"},
                   {.name = "glu", .words = {"a", "b"}, .help = "form of the local step"},
                   {.name = "local_rate",
                    .type = Key::Type::number,
                    .help = "rate of local steps over the server's; 0: the number of replicas"},
                   {.name = "local_decay",
                    .type = Key::Type::number,
                    .help = "weight decay of local steps"}},
          .resolve = resolve,
          .make = ssd_sgd,
          .promise = promise_inside};
}

}  // namespace unlatch
