// Properties: staleness, weight versions and storage, computed from a graph.
#pragma once

#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// Per stage, in steady state: the maximum over the batches (order only, no time).
struct Properties {
  std::vector<int> forward_staleness;  ///< updates between F of a micro-batch and its own update
  std::vector<int> weight_staleness;   ///< the same from the weights its gradient was computed at
  std::vector<int> weight_versions;    ///< most versions alive at once, the current one included
  std::vector<int> activations;        ///< most tapes alive at once, in the order of the lanes
  std::vector<int> inputs;             ///< most stored inputs alive at once
  std::vector<int> updates;            ///< updates done
};

Properties properties(const TaskGraph& graph);

/// Forward staleness of each update of a stage, in order (where it cycles, as in ADL).
std::vector<int> staleness_by_update(const TaskGraph& graph, Stage stage);

/// Which version an update is applied to, for the gradient of each micro-batch of each stage:
/// applied[stage][micro_batch], -1 where a run without drain never applies it.
std::vector<std::vector<int>> applied_versions(const TaskGraph& graph);

}  // namespace unlatch
