#include "exec/profile_steps.h"

#include <ranges>

#include "schedules/schedule.h"

namespace unlatch::exec {
namespace {

auto from_the_last(int layers) { return up_to<Stage>(layers) | std::views::reverse; }

Schedule schedule_of(int layers, int batches) {
  return {"profile", {.stages = layers, .chunks = layers, .batches = batches}};
}

void forward(Program& program, int layers, MicroBatch n) {
  for (const Stage k : up_to<Stage>(layers)) program.forward(k, n);
}

void split_backward(Program& program, int layers, MicroBatch n) {
  for (const Stage k : from_the_last(layers)) program.backward_input(k, n);
  for (const Stage k : from_the_last(layers)) program.backward_weight(k, n);
}

}  // namespace

TaskGraph ProfileSteps::graph() const {
  const int batches = 2 * half();
  Schedule schedule = schedule_of(layers, batches);
  Program& program = schedule.on(Rank{0});
  for (const MicroBatch n : up_to<MicroBatch>(batches)) {
    forward(program, layers, n);
    if (other_way(n)) {
      for (const Stage k : up_to<Stage>(layers)) program.recompute(k, n);
      split_backward(program, layers, n);
    } else {
      for (const Stage k : from_the_last(layers)) program.backward(k, n);
    }
    for (const Stage k : up_to<Stage>(layers)) program.update(k, n);
    program.next_step();
  }
  return schedule.build();
}

TaskGraph split_step_graph(int layers) {
  Schedule schedule = schedule_of(layers, 1);
  Program& program = schedule.on(Rank{0});
  forward(program, layers, MicroBatch{0});
  split_backward(program, layers, MicroBatch{0});
  return schedule.build();
}

}  // namespace unlatch::exec
