// ADL: FDG whose stages sum up the gradients of several batches before each update.
//
// Zhuang et al., ICML 2021 (arXiv 2012.03747). Breaks all three locks. A stage counts its own
// backwards; accumulating a of them divides the staleness by about a: batch j of a group meets
// weights ceil((D_k - j) / a) updates old, D_k = 2(K-1-k), bf: max(0, D_k-1). An incomplete last
// group is never applied.

#include "schedules/fdg_family.h"

namespace unlatch {
namespace {

int group(const Options& options) { return static_cast<int>(options.number("accumulate")); }

Schedule adl(const Shape& shape, const Options& options) {
  Schedule schedule = fdg_schedule("adl", shape, options, group(options));
  if (options.is("reduce", "mean")) schedule.learning().loss_scale = 1.0 / group(options);
  return schedule;
}

void resolve(const Shape&, Options& options) {
  check_shrink("adl", options);
  constexpr int most = 1'000'000;
  whole_number(options, "adl", "accumulate", 1, most);
}

Promise promise(const Shape& shape, const Options& options) {
  const int groups = shape.batches / group(options);
  std::vector<int> staleness, versions;
  for (const int delay : fdg_delays(shape, options)) {
    const int updates = (delay + group(options) - 1) / group(options);
    staleness.push_back(std::max(0, std::min(updates, groups - 1)));
    versions.push_back(options.is("weights", "exact") ? std::min(updates, groups) + 1 : 1);
  }
  return {staleness, staleness, versions, fdg_tapes(shape, options),
          std::vector<int>(shape.stages, 0)};
}

std::vector<Key> keys() {
  std::vector<Key> all = fdg_keys();
  all.push_back({.name = "accumulate",
                 .type = Key::Type::number,
                 .default_number = 2,
                 .help = "backwards of a stage to each of its updates"});
  all.push_back({.name = "reduce",
                 .words = {"mean", "sum"},
                 .help = "what an update applies of the gradients of its group"});
  return all;
}

}  // namespace

Method adl_method() {
  return {.name = "adl",
          .title = "Accumulated decoupled learning",
          .source = "Zhuang et al., ICML 2021, arXiv 2012.03747",
          .breaks = {.forward = true, .backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "ceil(2(K-1-k)/a); bf: ceil(max(0, 2(K-1-k)-1)/a)",
          .memory = "2(K-1-k)+1 tapes, ceil(2(K-1-k)/a)+1 versions (exact); 1 version in_place",
          .keys = keys(),
          .resolve = resolve,
          .make = adl,
          .promise = promise};
}

}  // namespace unlatch
