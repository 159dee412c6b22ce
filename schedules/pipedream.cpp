// PipeDream: 1F1B over the endless stream of batches, an update right after every backward.
//
// Narayanan et al., SOSP 2019 (stash: B reads the weights of its F; vertical_sync: every stage
// reads the version that stage 0 read, P-1 updates old); Yang et al., MLSys 2021 (PipeMare, latest:
// no stash, B reads the weights of now; its rate rescaling, discrepancy correction and synchronous
// warm-up are keys of their own, modern.md 2.7). predicted: as latest, but F runs
// on weights that momentum predicts for its own update, in the way of SpecTrain and XPipe, whose
// own counts of the updates ahead are not followed: they are counted in the schedule, K-1-k in F
// and 0 in B. No bubble but at start and end.
#include <algorithm>

#include "schedules/delays.h"
#include "schedules/error.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

OnlyWith pipemare() { return {"weights", {"latest"}}; }

/// No stash: B reads the weights of now.
bool keeps_one(const Options& options) {
  return options.is("weights", "latest") || options.is("weights", "predicted");
}

Schedule pipedream(const Shape& shape, const Options& options) {
  const Weights weights = keeps_one(options) ? Weights::current : Weights::as_forward;
  const bool synced = options.is("weights", "vertical_sync");
  Schedule schedule("pipedream", shape);
  schedule.learning().predicts_weights = options.is("weights", "predicted");
  schedule.learning().rescaled_updates = static_cast<int>(options.number("rescale"));
  schedule.learning().drift_decay = options.number("correct");
  const int in_step = std::min(shape.batches, static_cast<int>(options.number("warmup")));
  for (const Stage k : up_to<Stage>(shape.stages)) {
    const int warm_up = shape.last_stage() - k;
    Program& program = schedule.of(k);
    for (const MicroBatch n : up_to<MicroBatch>(in_step)) {
      program.forward(k, n).backward(k, n).update(k, n).next_step();
    }
    for (int i = in_step; i < shape.batches + (shape.drain ? warm_up : 0); ++i) {
      const int at_stage_0 = std::max(in_step, i - shape.last_stage().value);
      if (i < shape.batches) program.forward(k, {i}, synced ? at_stage_0 : newest);
      const MicroBatch n{i - warm_up};
      if (n.value >= in_step) program.backward(k, n, weights).update(k, n);
      program.next_step();
    }
  }
  return schedule;
}

void resolve(const Shape&, Options& options) {
  constexpr int most = 1'000'000'000;
  whole_number(options, "pipedream", "rescale", 0, most);
  whole_number(options, "pipedream", "warmup", 0, most);
  const double decay = options.number("correct");
  require(decay >= 0 && decay < 1, "pipedream: correct={} must lie in [0, 1)", decay);
}

Promise promise(const Shape& shape, const Options& options) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  const int in_step = std::min(shape.batches, static_cast<int>(options.number("warmup")));
  if (in_step == shape.batches) return {zero, zero, one, one, zero};
  const std::vector<int> own = delays(shape, 1, shape.batches - in_step - 1);
  const std::vector<int> staleness =
      options.is("weights", "vertical_sync") ? std::vector<int>(shape.stages, own.front()) : own;
  return {staleness, staleness, keeps_one(options) ? one : plus_one(staleness), plus_one(own),
          zero};
}

}  // namespace

Method pipedream_method() {
  return {.name = "pipedream",
          .title = "PipeDream: asynchronous 1F1B",
          .source = "Narayanan et al., SOSP 2019; latest: Yang et al., MLSys 2021",
          .breaks = {.forward = true, .backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "K-1-k; vertical_sync: K-1",
          .memory = "K-k tapes and versions; vertical_sync: K versions; latest, predicted: 1",
          .keys = {{.name = "weights",
                    .words = {"stash", "vertical_sync", "latest", "predicted"},
                    .help = "B reads those of its F, of F on stage 0, of now, or F predicts them"},
                   {.name = "rescale",
                    .type = Key::Type::number,
                    .help = "updates until delayed stages have the whole rate (PipeMare T1)",
                    .only_with = pipemare()},
                   {.name = "correct",
                    .type = Key::Type::number,
                    .help = "decay of the drift that B corrects, as 0.135; 0: none (T2)",
                    .only_with = pipemare()},
                   {.name = "warmup",
                    .type = Key::Type::number,
                    .help = "synchronous batches at the start (T3)"}},
          .resolve = resolve,
          .make = pipedream,
          .promise = promise};
}

}  // namespace unlatch
