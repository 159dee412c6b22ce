// Placement search: which devices the ranks sit on, for the least score.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "sim/hardware.h"
#include "sim/split_search.h"

namespace unlatch::sim {

/// Devices that may have a rank each; one entry a device.
struct Sites {
  std::vector<int> devices = {};
  std::vector<int> kinds = {};       ///< those of a kind are in one node and interchangeable
  std::vector<int> nodes = {};       ///< where they are
  std::vector<int> node_kinds = {};  ///< nodes of a kind are, too: their first devices, and so on
  std::vector<int> types = {};       ///< of device
  std::vector<double> speeds = {};   ///< operations a second, at best

  /// Whether it may matter which of them a rank sits on.
  bool differ() const;
};
/// Those of the cluster's own placement, in its order.
Sites sites_of(const Cluster& cluster);

using Devices = std::vector<int>;  ///< by rank

/// Placements that are the same but for swaps of devices of a kind and of nodes of a kind.
class Likeness {
 public:
  explicit Likeness(const Sites& sites);
  /// Of all that are like it the one in all_placements().
  Devices representative(const Devices& devices) const;

 private:
  struct Node {
    int kind = 0;
    std::map<int, Devices> kinds = {};  ///< by least device: in the same order in nodes alike
  };
  std::map<int, Node> nodes_;
  std::map<int, Devices> nodes_of_kind_;
  std::map<int, std::pair<int, int>> site_of_;  ///< of each device its node and there its kind
};

/// Every way to put `ranks` ranks on the sites, but for swaps of devices of a kind and of nodes of
/// a kind; empty where these are more than `most`.
std::vector<Devices> all_placements(const Sites& sites, int ranks, int most);

/// Placements that fill one node after the other and those that fill one type of device after the
/// other, beginning with each kind of node or type, then the fastest first; each also backwards,
/// and with the replicas of a rank beside each other.
std::vector<Devices> filling_placements(const Sites& sites, int replicas, int ranks);

/// From a placement on, two ranks are swapped, or one is moved to a free device, or the ranks of
/// two nodes change places, as long as that scores less: a round without success or `most`
/// placements scored end it. The same on every run.
Devices descend(const Sites& sites, Devices from, int most,
                const std::function<SplitScore(const Devices&)>& score);

}  // namespace unlatch::sim
