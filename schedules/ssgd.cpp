// SSGD: synchronous data parallelism; the replicas' gradients are summed before every update.
//
// Chen et al. 2016 (arXiv 1604.00981); modern.md 5.1, all-reduce graph. compression=topk sends only
// the largest entries of what a replica has gathered, with momentum correction, clipping, factor
// masking and sparsity warm-up (DGC, Lin et al., ICLR 2018, arXiv 1712.01887); over all parameters
// of a stage together, with an exact threshold. The optimizer then must have no momentum.
#include "schedules/data_parallel.h"
#include "schedules/error.h"

namespace unlatch {
namespace {

constexpr int most = 1'000'000'000;
OnlyWith topk() { return {"compression", {"topk"}}; }

Schedule ssgd(const Shape& shape, const Options& options) {
  Schedule schedule = schedule_inside("ssgd", shape, options);
  if (options.is("compression", "topk")) {
    schedule.learning().agreement.compression = {
        .ratio = options.number("ratio"),
        .momentum = options.number("momentum"),
        .clip = options.number("clip"),
        .warm_up = whole_number(options, "ssgd", "warmup", 0, most),
        .step_batches = whole_number(options, "ssgd", "step", 1, most)};
  }
  return schedule;
}

void resolve(const Shape& shape, Options& options) {
  require_inside(shape, options);
  const double ratio = options.number("ratio");
  const double momentum = options.number("momentum");
  require(ratio > 0 && ratio <= 1, "ssgd: ratio={} must lie in (0, 1]", ratio);
  require(momentum >= 0 && momentum < 1, "ssgd: momentum={} must lie in [0, 1)", momentum);
  require(options.number("clip") >= 0, "ssgd: clip={} must not be negative",
          options.number("clip"));
  whole_number(options, "ssgd", "warmup", 0, most);
  whole_number(options, "ssgd", "step", 1, most);
}

}  // namespace

Method ssgd_method() {
  return {.name = "ssgd",
          .title = "Synchronous SGD on replicas",
          .source = "Chen et al. 2016, arXiv 1604.00981; topk: Lin et al., ICLR 2018",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = false,
          .staleness = "0",
          .memory = "1 tape, 1 version; topk: 2 more gradients",
          .keys = {pipeline_inside(),
                   {.name = "compression",
                    .words = {"none", "topk"},
                    .help = "all entries of a gradient are sent, or the largest"},
                   {.name = "ratio",
                    .type = Key::Type::number,
                    .default_number = 0.001,
                    .help = "share of the entries that is sent (topk)",
                    .only_with = topk()},
                   {.name = "momentum",
                    .type = Key::Type::number,
                    .default_number = 0.9,
                    .help = "of the gathering, in place of the optimizer's (topk)",
                    .only_with = topk()},
                   {.name = "clip",
                    .type = Key::Type::number,
                    .help = "largest norm of a replica's gradient of a stage; 0: any (topk)",
                    .only_with = topk()},
                   {.name = "warmup",
                    .type = Key::Type::number,
                    .help = "steps from dense to the ratio (topk)",
                    .only_with = topk()},
                   {.name = "step",
                    .type = Key::Type::number,
                    .default_number = 100,
                    .help = "batches in each of these steps (topk)",
                    .only_with = topk()}},
          .resolve = resolve,
          .make = ssgd,
          .promise = promise_inside};
}

}  // namespace unlatch
