// The order of plain training: a batch flows up the stages and down again, then all update.
#pragma once

#include <string>
#include <utility>

#include "schedules/schedules.h"

namespace unlatch {

inline Schedule whole_batch_schedule(std::string specification, const Shape& shape) {
  Schedule schedule(std::move(specification), shape);
  for (const Stage k : up_to<Stage>(shape.stages)) {
    Program& program = schedule.of(k);
    for (const MicroBatch n : up_to<MicroBatch>(shape.batches)) {
      program.forward(k, n).backward(k, n).update(k, n).next_step();
    }
  }
  return schedule;
}

inline Promise whole_batch_promise(const Shape& shape, const Options&) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {zero, zero, one, one, zero};
}

}  // namespace unlatch
