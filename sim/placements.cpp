#include "sim/placements.h"

#include <algorithm>
#include <map>

namespace unlatch::sim {
namespace {

std::vector<int> nodes_in_turn(const Cluster& cluster, const std::vector<int>& devices) {
  std::map<int, std::vector<int>> by_node;
  for (const int device : devices) by_node[cluster.node_of(device)].push_back(device);
  std::vector<int> turns;
  for (std::size_t round = 0; turns.size() < devices.size(); ++round) {
    for (const auto& [node, of_node] : by_node) {
      if (round < of_node.size()) turns.push_back(of_node[round]);
    }
  }
  return turns;
}

std::vector<int> replicas_together(const std::vector<int>& devices, int replicas, int ranks) {
  std::vector<int> together;
  for (int replica = 0; replica < replicas; ++replica) {
    for (int rank = 0; rank < ranks; ++rank) {
      together.push_back(devices[static_cast<std::size_t>(rank * replicas + replica)]);
    }
  }
  return together;
}

}  // namespace

std::vector<Placement> placements(const Cluster& cluster, int replicas, int ranks) {
  const auto wanted = static_cast<std::size_t>(replicas) * static_cast<std::size_t>(ranks);
  std::vector<int> devices = cluster.placement();
  if (devices.size() < wanted) return {{"in order", std::move(devices)}};
  devices.resize(wanted);
  std::vector<Placement> all{{"in order", devices}};
  const auto add = [&](std::string_view how, std::vector<int> order) {
    const bool is_new = std::ranges::find(all, order, &Placement::devices) == all.end();
    if (is_new) all.push_back({how, std::move(order)});
  };
  const int node = cluster.node_of(devices.front());
  if (std::ranges::all_of(devices, [&](int d) { return cluster.node_of(d) == node; })) return all;
  add("nodes in turn", nodes_in_turn(cluster, devices));
  add("replicas together", replicas_together(devices, replicas, ranks));
  return all;
}

}  // namespace unlatch::sim
