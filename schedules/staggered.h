// The schedule that FDG and DSP share: each step a stage forwards one batch and backwards an older.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedules/schedules.h"

namespace unlatch {

/// Local step i of stage k: F(k,i) and B(k, i - delay[k]), handed over through queues. In lock-step
/// form a barrier ends each iteration and stage k runs its step t - behind[k] in iteration t.
struct Staggered {
  std::string specification;
  bool lockstep = false;
  std::vector<int> behind;             ///< by stage, iterations after stage 0
  std::vector<int> delay;              ///< by stage, not growing along them, 0 at the last
  std::vector<int> forward_capacity;   ///< by boundary: activations in the queue to stage k+1
  std::vector<int> backward_capacity;  ///< by boundary: gradients in the queue back to stage k
  bool replay = false;                 ///< R beside F rebuilds the tape of B (where delay > 0)
  bool backward_first = false;         ///< B before F in a step, but on the last stage
  Weights weights = Weights::current;
  int accumulate = 1;  ///< backwards an update; what an incomplete last group sums up is dropped

  Schedule make(const Shape& shape) const {
    Schedule schedule(specification, shape);
    schedule.learning().leaves_gradients = accumulate > 1;
    for (const Stage k : up_to<Stage>(shape.stages)) {
      const int steps = lockstep ? iterations(shape) : local_steps(shape, k);
      for (int t = 0; t < steps; ++t) {
        add_step(schedule, k, lockstep ? t - behind[k.value] : t);
        if (lockstep) schedule.of(k).barrier();
        schedule.of(k).next_step();
      }
    }
    return schedule;
  }

 private:
  int local_steps(const Shape& shape, Stage k) const {
    return shape.batches + (shape.drain ? delay[k.value] : 0);
  }
  int iterations(const Shape& shape) const {
    int most = 0;
    for (const Stage k : up_to<Stage>(shape.stages)) {
      most = std::max(most, behind[k.value] + local_steps(shape, k));
    }
    return most;
  }
  int capacity(const std::vector<int>& capacities, Stage boundary) const {
    return lockstep ? unbounded : capacities[boundary.value];
  }

  void add_step(Schedule& schedule, Stage k, int i) const {
    const Shape& shape = schedule.shape();
    if (i < 0 || i >= local_steps(shape, k)) return;
    const int n = i - delay[k.value];
    const bool backwards = n >= 0 && n < shape.batches;
    const bool first = backward_first && k < shape.last_stage();
    if (backwards && first) add_backward(schedule, k, {n});
    add_forward(schedule, k, i, n);
    if (backwards && !first) add_backward(schedule, k, {n});
  }

  void add_forward(Schedule& schedule, Stage k, int i, int n) const {
    const Shape& shape = schedule.shape();
    Program& program = schedule.of(k);
    const bool replays = replay && n >= 0 && delay[k.value] > 0;
    if (i >= shape.batches) {
      if (replays) program.recompute_alone(k, {n});
      return;
    }
    if (k > Stage{0}) program.pop_forward(k, {i});
    replays ? program.forward_beside_recompute(k, {i}, {n}) : program.forward(k, {i});
    if (k < shape.last_stage()) program.push_forward(k, {i}, capacity(forward_capacity, k));
  }

  void add_backward(Schedule& schedule, Stage k, MicroBatch n) const {
    Program& program = schedule.of(k);
    if (k < schedule.shape().last_stage()) program.pop_backward(k, n);
    program.backward(k, n, weights);
    if (k > Stage{0}) program.push_backward(k, n, capacity(backward_capacity, k - 1));
    if ((n.value + 1) % accumulate == 0) program.update(k, n);
  }
};

}  // namespace unlatch
