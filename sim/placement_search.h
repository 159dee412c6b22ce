// Placement search: which devices the ranks sit on, for the least score.
#pragma once

#include <functional>
#include <vector>

#include "sim/hardware.h"
#include "sim/split_search.h"

namespace unlatch::sim {

/// Devices that may have a rank each.
struct Sites {
  std::vector<int> devices;
  std::vector<int> kinds;  ///< of each of them: those of a kind are interchangeable
};
/// Those of the cluster's own placement, in its order.
Sites sites_of(const Cluster& cluster);

using Devices = std::vector<int>;  ///< by rank

/// Every way to put `ranks` ranks on the sites, but for swaps of devices of a kind; empty where
/// these are more than `most`.
std::vector<Devices> all_placements(const Sites& sites, int ranks, int most);

/// From a placement on, two ranks are swapped, or one is moved to a free device, as long as that
/// scores less: a round without success or `most` placements scored end it. The same on every run.
Devices descend(const Sites& sites, Devices from, int most,
                const std::function<SplitScore(const Devices&)>& score);

}  // namespace unlatch::sim
