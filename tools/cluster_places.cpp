#include "tools/cluster_places.h"

#include <set>
#include <tuple>

#include "schedules/error.h"

namespace unlatch::tools {

Places::Places(const sim::Cluster& cluster, const TaskGraph& graph)
    : cluster_(cluster), graph_(graph) {
  const auto places = static_cast<int>(cluster.placement().size());
  require(graph.ranks() <= places, "{} ranks, but the cluster {} has places for {}", graph.ranks(),
          cluster.name(), places);
}

namespace {

std::vector<sim::Link> kinds_of(const std::vector<sim::Link>& links) {
  std::vector<sim::Link> kinds;
  std::set<std::tuple<std::string, double, nanoseconds>> known;
  for (const sim::Link& link : links) {
    if (known.emplace(link.name, link.rate, link.latency).second) kinds.push_back(link);
  }
  return kinds;
}

}  // namespace

Placement placement_of(const sim::Cluster& cluster, const TaskGraph& graph) {
  const Places places(cluster, graph);
  Placement placement;
  for (int r = 0; r < graph.ranks(); ++r) {
    placement.devices.push_back(cluster.placement()[r]);
    placement.nodes.push_back(cluster.node_of(placement.devices.back()));
    const sim::DeviceType& type = cluster.type_of(placement.devices.back());
    placement.types.push_back(type.name);
    placement.memory.push_back(type.memory);
  }
  const auto node = [&](Stage k) { return cluster.node_of(places.device(k)); };
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    if (graph.shape().is_last(k) || node(k) == node(k + 1)) continue;
    placement.borders.emplace_back(k.value, k.value + 1);
  }
  placement.links = kinds_of(cluster.links());
  return placement;
}

}  // namespace unlatch::tools
