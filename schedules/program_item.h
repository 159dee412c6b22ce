// ProgramItem: one entry of a rank's program, a plain value.
#pragma once

#include <cstdint>
#include <limits>

#include "schedules/task.h"

namespace unlatch {

/// Which weights a backward reads: those of now, or those that its forward read (a stash).
enum class Weights : std::uint8_t { current, as_forward };

/// No limit on the items in a queue between two stages.
inline constexpr int unbounded = std::numeric_limits<int>::max();

/// The weights as they are when a task runs.
inline constexpr int newest = -1;

struct ProgramItem {
  enum class Kind : std::uint8_t { task, after, barrier } kind = Kind::task;
  Op op = Op::forward;
  Weights weights = Weights::current;
  Engine engine = Engine::compute;
  bool beside_previous = false;  ///< R that starts with the F before it
  bool ends_block = false;       ///< B that makes one block with the F before it
  Stage stage;
  MicroBatch micro_batch;
  int capacity = unbounded;
  int version = newest;  ///< of the weights that F reads
  int step = 0;
  int column = -1;  ///< place in the file it was read from; -1: counted from the calls
  friend auto operator<=>(const ProgramItem&, const ProgramItem&) = default;
};

}  // namespace unlatch
