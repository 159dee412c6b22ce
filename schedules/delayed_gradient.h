// The schedule that DDG and FR share: a sequential forward, all backwards in parallel.
#pragma once

#include <string>

#include "schedules/schedules.h"

namespace unlatch {

/// Stage k runs backward on the batch it forwarded d_k = K-1-k iterations ago, with the gradient
/// that stage k+1 produced one iteration ago. Features replay recomputes before it (not stage K-1).
struct DelayedGradient {
  std::string specification;
  bool mailbox = false;  ///< one-message mailboxes instead of lock-step iterations
  bool replay = false;   ///< FR: R before B
  Weights weights = Weights::current;

  Schedule make(const Shape& shape) const {
    Schedule schedule(specification, shape);
    for (const Stage k : up_to<Stage>(shape.stages)) {
      mailbox ? add_mailbox(schedule, k) : add_lockstep(schedule, k);
    }
    return schedule;
  }

 private:
  static int delay(const Shape& shape, Stage k) { return shape.last_stage() - k; }

  void add_backward(Program& program, const Shape& shape, Stage k, MicroBatch n) const {
    if (replay && k < shape.last_stage()) program.recompute(k, n);
    program.backward(k, n, weights);
  }

  /// Iteration t: the forward phase of batch t, then every stage's backward and update.
  void add_lockstep(Schedule& schedule, Stage k) const {
    const Shape& shape = schedule.shape();
    const Stage last = shape.last_stage();
    Program& program = schedule.of(k);
    const int iterations = shape.batches + (shape.drain ? shape.stages - 1 : 0);
    for (int t = 0; t < iterations; ++t) {
      if (t < shape.batches) program.forward(k, {t});
      const MicroBatch n{t - delay(shape, k)};
      if (n.value >= 0 && n.value < shape.batches) {
        if (t < shape.batches) program.after(Op::forward, last, {t});
        add_backward(program, shape, k, n);
        program.update(k, n);
      }
      program.barrier().next_step();
    }
  }

  /// Iteration i of one worker: F(i), B(i-d), and the gradient for the next iteration's B.
  void add_mailbox(Schedule& schedule, Stage k) const {
    const Shape& shape = schedule.shape();
    const Stage last = shape.last_stage();
    Program& program = schedule.of(k);
    const int d = delay(shape, k);
    const int iterations = shape.batches + (shape.drain ? d : 0);
    for (int i = 0; i < iterations; ++i) {
      if (i < shape.batches) {
        if (k > Stage{0}) program.pop_forward(k, {i});
        program.forward(k, {i});
        if (k < last) program.push_forward(k, {i}, 1);
      }
      const MicroBatch n{i - d};
      if (n.value >= 0) {
        add_backward(program, shape, k, n);
        program.update(k, n);
        if (k > Stage{0}) program.push_backward(k, n, 1);
      }
      const MicroBatch next = n + 1;
      const bool used = next.value >= 0 && next.value < shape.batches;
      if (k < last && used && (shape.drain || i + 1 < iterations)) program.pop_backward(k, next);
      program.next_step();
    }
  }
};

}  // namespace unlatch
