#include "sim/placement_search.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace unlatch::sim {
namespace {

/// One entry a device: the number of the first one that is like it, numbers without gaps.
std::vector<int> kinds_of(const std::vector<int>& devices,
                          const std::function<bool(int, int)>& alike) {
  std::vector<int> kinds;
  Devices first;  // of each kind
  for (const int device : devices) {
    const auto found = std::ranges::find_if(first, [&](int other) { return alike(device, other); });
    kinds.push_back(static_cast<int>(found - first.begin()));
    if (found == first.end()) first.push_back(device);
  }
  return kinds;
}

/// Node by node, and there kind by kind, what is free.
class Enumerator {
 public:
  Enumerator(const Sites& sites, int ranks, std::size_t most)
      : ranks_(static_cast<std::size_t>(ranks)), most_(most) {
    for (std::size_t s = 0; s < sites.devices.size(); ++s) {
      Node& node = nodes_[sites.nodes[s]];
      node.kind = sites.node_kinds[s];
      node.free[sites.kinds[s]].push_back(sites.devices[s]);
    }
    for (auto& [number, node] : nodes_) {
      for (auto& [kind, devices] : node.free) std::ranges::reverse(devices);
    }
  }

  std::vector<Devices> all() {
    add();
    return all_.size() > most_ ? std::vector<Devices>{} : std::move(all_);
  }

 private:
  struct Node {
    int kind = 0;
    int used = 0;
    std::map<int, Devices> free = {};  ///< by kind, the next one last
  };

  void add() {
    if (all_.size() > most_) return;
    if (devices_.size() == ranks_) {
      all_.push_back(devices_);
      return;
    }
    std::set<int> empty_kinds;  // of empty nodes alike only the first is tried
    for (auto& [number, node] : nodes_) {
      if (node.used == 0 && !empty_kinds.insert(node.kind).second) continue;
      for (auto& [kind, devices] : node.free) {
        if (devices.empty()) continue;
        devices_.push_back(devices.back());
        devices.pop_back();
        ++node.used;
        add();
        --node.used;
        devices.push_back(devices_.back());
        devices_.pop_back();
      }
    }
  }

  std::size_t ranks_, most_;
  std::map<int, Node> nodes_;
  Devices devices_;
  std::vector<Devices> all_;
};

/// Sites by `key`, least first, in their own order where it is the same.
template <typename Key>
std::vector<std::size_t> sorted_sites(const Sites& sites, const Key& key) {
  std::vector<std::size_t> order(sites.devices.size());
  for (std::size_t s = 0; s < order.size(); ++s) order[s] = s;
  std::ranges::stable_sort(order, {}, key);
  return order;
}

/// The highest speed of the sites with each number.
std::map<int, double> fastest_by(const Sites& sites, const std::vector<int>& numbers) {
  std::map<int, double> fastest;
  for (std::size_t s = 0; s < numbers.size(); ++s) {
    double& speed = fastest[numbers[s]];
    speed = std::max(speed, sites.speeds[s]);
  }
  return fastest;
}

Devices replicas_beside(const Devices& devices, int replicas, int ranks) {
  Devices beside;
  for (int replica = 0; replica < replicas; ++replica) {
    for (int rank = 0; rank < ranks; ++rank) {
      beside.push_back(devices[static_cast<std::size_t>(rank * replicas + replica)]);
    }
  }
  return beside;
}

/// All devices, those with ranks first, in the order of these.
class Order {
 public:
  Order(const Sites& sites, const Devices& from) : order_(from), ranks_(from.size()) {
    for (std::size_t s = 0; s < sites.devices.size(); ++s) {
      const int device = sites.devices[s];
      kind_of_[device] = sites.kinds[s];
      nodes_[sites.nodes[s]].push_back(device);
      if (std::ranges::find(order_, device) == order_.end()) order_.push_back(device);
    }
  }

  Devices placement() const {
    return {order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(ranks_)};
  }
  /// What changes places with what, devices or nodes.
  struct Swap {
    bool of_nodes = false;
    int a = 0, b = 0;
  };
  std::vector<Swap> swaps() const {
    std::vector<Swap> swaps;
    const auto ranks = static_cast<int>(ranks_), places = static_cast<int>(order_.size());
    for (auto a = nodes_.begin(); a != nodes_.end(); ++a) {
      for (auto b = std::next(a); b != nodes_.end(); ++b) {
        swaps.push_back({true, a->first, b->first});
      }
    }
    for (int a = 0; a < ranks; ++a) {
      for (int b = a + 1; b < places; ++b) swaps.push_back({false, a, b});
    }
    return swaps;
  }
  /// False where no rank gets another device. Twice the same leaves all as it was.
  bool apply(const Swap& swap) {
    return swap.of_nodes
               ? swap_nodes(nodes_[swap.a], nodes_[swap.b])
               : swap_places(static_cast<std::size_t>(swap.a), static_cast<std::size_t>(swap.b));
  }

 private:
  bool swap_places(std::size_t a, std::size_t b) {
    if (kind_of_[order_[a]] == kind_of_[order_[b]]) return false;
    std::swap(order_[a], order_[b]);
    return true;
  }
  bool swap_nodes(const Devices& a, const Devices& b) {
    const auto has_rank = [&](int device) {
      return std::ranges::find(order_, device) - order_.begin() <
             static_cast<std::ptrdiff_t>(ranks_);
    };
    if (std::ranges::none_of(a, has_rank) && std::ranges::none_of(b, has_rank)) return false;
    for (std::size_t d = 0; d < std::min(a.size(), b.size()); ++d) {
      std::iter_swap(std::ranges::find(order_, a[d]), std::ranges::find(order_, b[d]));
    }
    return true;
  }

  Devices order_;
  std::size_t ranks_;
  std::map<int, int> kind_of_;
  std::map<int, Devices> nodes_;
};

}  // namespace

bool Sites::differ() const {
  return std::ranges::any_of(kinds, [&](int kind) { return kind != kinds.front(); });
}

Sites sites_of(const Cluster& cluster) {
  Sites sites{.devices = cluster.placement()};
  std::map<int, Devices> places;  // of each node, those that have sites, numbered within it
  for (const int device : sites.devices) {
    const int node = cluster.node_of(device);
    sites.nodes.push_back(node);
    sites.types.push_back(cluster.type_index(device));
    const DeviceType& type = cluster.type_of(device);
    double most = 0;
    for (const auto& [format, flops] : type.flops) most = std::max(most, flops);
    sites.speeds.push_back(most * type.achieved);
    places[node].push_back(device - cluster.devices_of(node).front());
  }
  for (auto& [node, numbers] : places) std::ranges::sort(numbers);
  sites.kinds =
      kinds_of(sites.devices, [&](int a, int b) { return cluster.interchangeable(a, b); });
  sites.node_kinds = kinds_of(sites.nodes, [&](int a, int b) {
    return a == b || (places[a] == places[b] && cluster.nodes_alike(a, b));
  });
  return sites;
}

Likeness::Likeness(const Sites& sites) {
  std::map<int, int> least;  // device of each kind
  for (std::size_t s = 0; s < sites.devices.size(); ++s) {
    int& device = least.try_emplace(sites.kinds[s], sites.devices[s]).first->second;
    device = std::min(device, sites.devices[s]);
  }
  for (std::size_t s = 0; s < sites.devices.size(); ++s) {
    Node& node = nodes_[sites.nodes[s]];
    node.kind = sites.node_kinds[s];
    const int kind = least[sites.kinds[s]];
    node.kinds[kind].push_back(sites.devices[s]);
    site_of_[sites.devices[s]] = {sites.nodes[s], kind};
  }
  for (const auto& [number, node] : nodes_) nodes_of_kind_[node.kind].push_back(number);
}

Devices Likeness::representative(const Devices& devices) const {
  std::map<int, int> partner;           // of each node with ranks
  std::map<int, std::size_t> in_use;    // nodes of each kind
  std::map<int, std::size_t> occupied;  // devices of each kind
  Devices result;
  for (const int device : devices) {
    const auto [number, kind] = site_of_.at(device);
    const Node& node = nodes_.at(number);
    const auto [theirs, is_new] = partner.try_emplace(number, 0);
    if (is_new) theirs->second = nodes_of_kind_.at(node.kind)[in_use[node.kind]++];
    const auto at = std::distance(node.kinds.begin(), node.kinds.find(kind));
    const auto& [least, alike] = *std::next(nodes_.at(theirs->second).kinds.begin(), at);
    result.push_back(alike[occupied[least]++]);
  }
  return result;
}

std::vector<Devices> all_placements(const Sites& sites, int ranks, int most) {
  if (static_cast<std::size_t>(ranks) > sites.devices.size()) return {};
  return Enumerator(sites, ranks, static_cast<std::size_t>(most)).all();
}

std::vector<Devices> filling_placements(const Sites& sites, int replicas, int ranks) {
  const auto wanted = static_cast<std::size_t>(replicas) * static_cast<std::size_t>(ranks);
  std::vector<Devices> all;
  const auto add = [&](Devices devices) {
    if (std::ranges::find(all, devices) == all.end()) all.push_back(std::move(devices));
  };
  const auto fill = [&](const std::vector<int>& numbers, int first) {
    std::map<int, double> fastest = fastest_by(sites, numbers);
    Devices devices;
    for (const std::size_t s : sorted_sites(sites, [&](std::size_t site) {
           const int number = numbers[site];
           return std::tuple(number != first, -fastest[number], number, -sites.speeds[site]);
         })) {
      if (devices.size() < wanted) devices.push_back(sites.devices[s]);
    }
    add(devices);
    add(replicas_beside(devices, replicas, ranks));
    std::ranges::reverse(devices);
    add(std::move(devices));
  };
  if (sites.devices.size() < wanted) return {};
  std::set<int> types, node_kinds;
  for (std::size_t s = 0; s < sites.devices.size(); ++s) {
    if (node_kinds.insert(sites.node_kinds[s]).second) fill(sites.nodes, sites.nodes[s]);
    if (types.insert(sites.types[s]).second) fill(sites.types, sites.types[s]);
  }
  return all;
}

Devices descend(const Sites& sites, Devices from, int most,
                const std::function<SplitScore(const Devices&)>& score) {
  Order order(sites, from);
  const std::vector<Order::Swap> swaps = order.swaps();
  SplitScore best = score(from);
  int scored = 1;
  std::size_t since_success = 0;
  for (std::size_t s = 0; since_success < swaps.size(); s = (s + 1) % swaps.size()) {
    ++since_success;
    if (!order.apply(swaps[s])) continue;
    const bool is_one_too_many = scored++ == most;
    const SplitScore next = is_one_too_many ? best : score(order.placement());
    if (next < best) {
      best = next;
      since_success = 0;
      continue;
    }
    order.apply(swaps[s]);  // back
    if (is_one_too_many) break;
  }
  return order.placement();
}

}  // namespace unlatch::sim
