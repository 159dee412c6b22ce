// FDG: each iteration every stage forwards one batch and backwards an older, stored one.
//
// Zhuang et al., IEEE TNNLS 2022 (arXiv 1906.09108). Breaks all three locks. D_k = 2(K-1-k):
// order fb: staleness D_k, D_k+1 tapes; bf (backward first): max(0, D_k-1) and max(1, D_k) tapes.
// Arriving gradients are multiplied by the shrinking factor beta, which compounds down the stages.
#include "schedules/delayed_gradient.h"
#include "schedules/error.h"

namespace unlatch {
namespace {

class Fdg {
 public:
  Fdg(const Shape& shape, const Options& options)
      : shape_(shape),
        queue_(options.is("form", "queue")),
        backward_first_(options.is("order", "bf")),
        weights_(options.is("weights", "exact") ? Weights::as_forward : Weights::current),
        schedule_("fdg", shape) {
    schedule_.scale_gradients(options.number("shrink"));
  }

  Schedule make() {
    for (const Stage k : up_to<Stage>(shape_.stages)) queue_ ? add_queue(k) : add_lockstep(k);
    return std::move(schedule_);
  }

 private:
  static constexpr int capacity = 2;  // 1 + p with p = q = 1

  int delay(Stage k) const { return 2 * (shape_.last_stage() - k); }
  int local_steps(Stage k) const { return shape_.batches + (shape_.drain ? delay(k) : 0); }

  /// Iteration t: stage k is at its local step t - k.
  void add_lockstep(Stage k) {
    const int iterations = shape_.batches + (shape_.drain ? 2 : 1) * (shape_.stages - 1);
    for (int t = 0; t < iterations; ++t) {
      add_step(k, t - k.value);
      schedule_.of(k).barrier().next_step();
    }
  }

  void add_queue(Stage k) {
    for (int i = 0; i < local_steps(k); ++i) {
      add_step(k, i);
      schedule_.of(k).next_step();
    }
  }

  void add_step(Stage k, int i) {
    const bool backward_first = backward_first_ && k < shape_.last_stage();
    if (backward_first) add_backward(k, i);
    add_forward(k, i);
    if (!backward_first) add_backward(k, i);
  }

  void add_forward(Stage k, int i) {
    if (i < 0 || i >= shape_.batches) return;
    Program& program = schedule_.of(k);
    if (queue_ && k > Stage{0}) program.pop_forward(k, {i});
    program.forward(k, {i});
    if (queue_ && k < shape_.last_stage()) program.push_forward(k, {i}, capacity);
  }

  void add_backward(Stage k, int i) {
    const int n = i - delay(k);
    if (n < 0 || n >= shape_.batches || i >= local_steps(k)) return;
    Program& program = schedule_.of(k);
    if (queue_ && k < shape_.last_stage()) program.pop_backward(k, {n});
    program.backward(k, {n}, weights_);
    if (queue_ && k > Stage{0}) program.push_backward(k, {n}, capacity);
    program.update(k, {n});
  }

  Shape shape_;
  bool queue_;
  bool backward_first_;
  Weights weights_;
  Schedule schedule_;
};

Promise promise(const Shape& shape, const Options& options) {
  std::vector<int> staleness = delays(shape, 2, shape.batches - 1);
  std::vector<int> tapes = plus_one(staleness);
  if (options.is("order", "bf")) {
    for (int k = 0; k < shape.stages; ++k) {
      const int delay = 2 * (shape.stages - 1 - k);
      staleness[k] = std::clamp(delay - 1, 0, shape.batches - 1);
      tapes[k] = std::clamp(delay, 1, shape.batches);
    }
  }
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {staleness, staleness, options.is("weights", "exact") ? plus_one(staleness) : one, tapes,
          zero};
}

}  // namespace

Method fdg_method() {
  return {.name = "fdg",
          .title = "Fully decoupled learning with delayed gradients",
          .source = "Zhuang et al., IEEE TNNLS 2022, arXiv 1906.09108",
          .breaks = {.forward = true, .backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "2(K-1-k); bf: max(0, 2(K-1-k)-1)",
          .memory = "2(K-1-k)+1 tapes and versions (exact); 1 version in_place",
          .keys = {{.name = "form",
                    .words = {"lockstep", "queue"},
                    .help = "barrier a iteration, or queues of two"},
                   {.name = "order",
                    .words = {"fb", "bf"},
                    .help = "forward or backward first in an iteration"},
                   {.name = "weights",
                    .words = {"exact", "in_place"},
                    .help = "weights in the input-gradient path: of the forward, or of now"},
                   {.name = "shrink",
                    .type = Key::Type::number,
                    .default_number = 1,
                    .help = "beta, 0 < beta <= 1: on gradients arriving at stages below the last"}},
          .resolve =
              [](const Shape&, Options& options) {
                const double beta = options.number("shrink");
                require(beta > 0 && beta <= 1, "fdg: shrink={} must lie in 0 < shrink <= 1", beta);
              },
          .make = [](const Shape& shape, const Options& o) { return Fdg(shape, o).make(); },
          .promise = promise};
}

}  // namespace unlatch
