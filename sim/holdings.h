// Holdings: how many tapes, inputs and weight versions of a stage are kept at once, whatever their
// size.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/graph.h"

namespace unlatch::sim {

/// What is kept of one stage at one moment.
struct Holding {
  int tapes = 0;       ///< whole ones, of micro-batches whose B or I has not ended
  int half_tapes = 0;  ///< what W still needs, of those whose I has
  int inputs = 0;
  int versions = 1;  ///< of the weights
  friend bool operator==(const Holding&, const Holding&) = default;
};

/// Bytes of one piece of a stage that a holding counts.
struct HoldingSizes {
  double tape = 0, half_tape = 0, input = 0, version = 0;
  double always = 0;  ///< gradient and state of the optimizer
};

/// For every stage: the holdings of the run, less those that another covers in every count. The
/// order of a rank's tasks decides them; only where R runs on a lane of its own can times move
/// them, and then they are those of F = R = B/2.
std::vector<std::vector<Holding>> holdings_by_stage(const TaskGraph& graph);

/// The most bytes that any of these moments keeps.
double most_bytes(const std::vector<Holding>& holdings, const HoldingSizes& sizes);

}  // namespace unlatch::sim
