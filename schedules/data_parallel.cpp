#include "schedules/data_parallel.h"

#include <algorithm>
#include <utility>

namespace unlatch {
namespace {

ScheduleSpec inside(const Options& options) {
  return ScheduleSpec::parse(options.word(inside_key));
}

}  // namespace

Key pipeline_inside() {
  return {.name = inside_key,
          .words = {"bp", "gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1", "zb-h2",
                    "interleaved-zb", "zb-v", "v-half", "v-min", "zb-auto", "dualpipev", "hanayo"},
          .help = "schedule of the pipeline in each replica"};
}

void require_inside(const Shape& shape, const Options& options) { inside(options).options(shape); }

Schedule schedule_inside(std::string specification, const Shape& shape, const Options& options) {
  Schedule schedule = inside(options).make(shape);
  schedule.rename(std::move(specification));
  return schedule;
}

Promise promise_inside(const Shape& shape, const Options& options) {
  return inside(options).promise(shape);
}

void promise_served(const Shape& whole, int bound, Promise& promise) {
  for (const Stage k : up_to<Stage>(whole.stages)) {
    const int copy = whole.copy_of(k);
    // Batch 0 starts from version 0. Later ones start behind the copy's own update, or, where no
    // copy may be ahead, behind the updates of all.
    const bool together = bound == 0 || whole.batches == 1;
    const int staleness = together ? copy : whole.copies - 1;
    promise.forward_staleness[k.value] = promise.weight_staleness[k.value] = staleness;
  }
}

}  // namespace unlatch
