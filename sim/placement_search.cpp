#include "sim/placement_search.h"

#include <algorithm>
#include <map>
#include <utility>

namespace unlatch::sim {
namespace {

/// Ranks on kinds of devices: two placements with the same kinds cost the same.
class Enumerator {
 public:
  Enumerator(const Sites& sites, int ranks, std::size_t most)
      : ranks_(static_cast<std::size_t>(ranks)), most_(most) {
    for (std::size_t s = 0; s < sites.devices.size(); ++s) {
      free_[sites.kinds[s]].push_back(sites.devices[s]);
    }
    for (auto& [kind, devices] : free_) std::ranges::reverse(devices);
  }

  std::vector<Devices> all() {
    add();
    return all_.size() > most_ ? std::vector<Devices>{} : std::move(all_);
  }

 private:
  void add() {
    if (all_.size() > most_) return;
    if (devices_.size() == ranks_) {
      all_.push_back(devices_);
      return;
    }
    for (auto& [kind, devices] : free_) {
      if (devices.empty()) continue;
      devices_.push_back(devices.back());
      devices.pop_back();
      add();
      devices.push_back(devices_.back());
      devices_.pop_back();
    }
  }

  std::size_t ranks_, most_;
  std::map<int, Devices> free_;  ///< by kind, the next one last
  Devices devices_;
  std::vector<Devices> all_;
};

}  // namespace

Sites sites_of(const Cluster& cluster) {
  Sites sites{.devices = cluster.placement(), .kinds = {}};
  Devices first;  // of each kind
  for (const int device : sites.devices) {
    const auto found = std::ranges::find_if(
        first, [&](int other) { return cluster.interchangeable(device, other); });
    sites.kinds.push_back(static_cast<int>(found - first.begin()));
    if (found == first.end()) first.push_back(device);
  }
  return sites;
}

std::vector<Devices> all_placements(const Sites& sites, int ranks, int most) {
  return Enumerator(sites, ranks, static_cast<std::size_t>(most)).all();
}

Devices descend(const Sites& sites, Devices from, int most,
                const std::function<SplitScore(const Devices&)>& score) {
  const auto ranks = static_cast<int>(from.size());
  // Behind the ranks' devices the free ones, so that a move is a swap, too.
  Devices order = std::move(from);
  std::map<int, int> kind_of;
  for (std::size_t s = 0; s < sites.devices.size(); ++s) {
    kind_of[sites.devices[s]] = sites.kinds[s];
    if (std::ranges::find(order, sites.devices[s]) == order.end()) {
      order.push_back(sites.devices[s]);
    }
  }
  const auto places = static_cast<int>(order.size());
  const auto placement = [&] { return Devices(order.begin(), order.begin() + ranks); };
  std::vector<std::pair<int, int>> swaps;
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < places; ++b) swaps.emplace_back(a, b);
  }
  SplitScore best = score(placement());
  int scored = 1;
  std::size_t since_success = 0;
  for (std::size_t s = 0; since_success < swaps.size(); s = (s + 1) % swaps.size()) {
    const auto [a, b] = swaps[s];
    ++since_success;
    if (kind_of[order[a]] == kind_of[order[b]]) continue;
    if (scored++ == most) break;
    std::swap(order[a], order[b]);
    const SplitScore next = score(placement());
    if (next < best) {
      best = next;
      since_success = 0;
    } else {
      std::swap(order[a], order[b]);
    }
  }
  return placement();
}

}  // namespace unlatch::sim
