// DGL: every stage trains on the loss of an auxiliary head; no gradient crosses a boundary.
//
// Belilovsky et al., ICML 2020 (arXiv 1901.08164). sync: stage k works on batch n as soon as stage
// k-1 has sent it; breaks the backward and update locks. async: stage k draws from a replay buffer
// with the last outputs of stage k-1, so that batches are skipped or used again; the stages take
// their turns as in the authors' simulated scheduler, at random with equal chances (one fixed
// sequence), after two steps each in order. Staleness 0, one tape.
#include <random>

#include "schedules/error.h"
#include "schedules/replay_buffer.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

/// Draws of all stages while they take turns until each has done a step a batch.
class Turns {
 public:
  Turns(const Shape& shape, int capacity)
      : steps_(shape.batches), buffers_(shape.stages, ReplayBuffer(capacity)) {
    sources_.resize(shape.stages);
    for (const Stage k : up_to<Stage>(shape.stages)) {
      for (int i = 0; i < std::min(2, steps_); ++i) step(k);
    }
    std::mt19937 random(1);
    while (true) {
      std::vector<Stage> unfinished;
      for (const Stage k : up_to<Stage>(shape.stages)) {
        if (done(k) < steps_) unfinished.push_back(k);
      }
      if (unfinished.empty()) return;
      step(unfinished[random() % unfinished.size()]);
    }
  }
  const Sources& sources() const& { return sources_; }

 private:
  int done(Stage k) const { return static_cast<int>(sources_[k.value].size()); }
  void step(Stage k) {
    const MicroBatch own{done(k)};
    sources_[k.value].push_back(k == Stage{0} ? own : buffers_[k.value - 1].draw());
    buffers_[k.value].push(own);
  }

  int steps_;
  std::vector<ReplayBuffer> buffers_;  ///< by stage that fills it
  Sources sources_;
};

int buffer(const Options& options) { return static_cast<int>(options.number("buffer")); }

Schedule dgl(const Shape& shape, const Options& options) {
  Schedule schedule("dgl", shape);
  schedule.learning().local_gradients.source = GradientSource::local_head;
  if (options.is("mode", "async")) {
    schedule.learning().sources = Turns(shape, buffer(options)).sources();
  }
  for (const Stage k : up_to<Stage>(shape.stages)) {
    for (const MicroBatch n : up_to<MicroBatch>(shape.batches)) {
      schedule.of(k).forward(k, n).backward(k, n).update(k, n).next_step();
    }
  }
  return schedule;
}

void resolve(const Shape&, Options& options) {
  constexpr int most = 1'000'000;
  whole_number(options, "dgl", "buffer", 1, most);
}

Promise promise(const Shape& shape, const Options&) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {zero, zero, one, one, zero};
}

}  // namespace

Method dgl_method() {
  return {.name = "dgl",
          .title = "Decoupled greedy learning",
          .source = "Belilovsky et al., ICML 2020, arXiv 1901.08164",
          .breaks = {.backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "0",
          .memory = "1 tape, 1 version, an auxiliary head; async: the buffered outputs",
          .keys = {{.name = "mode",
                    .words = {"sync", "async"},
                    .help = "every batch on every stage, or draws from a replay buffer"},
                   {.name = "buffer",
                    .type = Key::Type::number,
                    .default_number = 1,
                    .help = "outputs in each replay buffer (async)",
                    .only_with = OnlyWith{"mode", {"async"}}}},
          .resolve = resolve,
          .make = dgl,
          .promise = promise};
}

}  // namespace unlatch
