// RunClock: when a run knew the loss of each batch and had made its updates.
#pragma once

#include <vector>

#include "traces/timeline.h"

namespace unlatch::tools {

struct RunClock {
  std::vector<nanoseconds> losses;   ///< by batch: end of the last forward of the last stage
  std::vector<nanoseconds> updates;  ///< by batch: end of the last update of it and those before
};

/// Of a run of that graph, predicted or measured; the graph may hold transfers.
RunClock clock_of(const TaskGraph& graph, const Timeline& timeline);

}  // namespace unlatch::tools
