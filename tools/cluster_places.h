// Where the ranks of a graph sit on a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedules/graph.h"
#include "sim/hardware.h"

namespace unlatch::tools {

/// Devices of the stages of a graph, which must outlive it, as the cluster must.
class Places {
 public:
  /// Throws Error when the graph has more ranks than the cluster has places.
  Places(const sim::Cluster& cluster, const TaskGraph& graph);

  int device(Stage k) const { return cluster_.placement()[graph_.rank_of(k).value]; }
  const sim::DeviceType& device_type(Stage k) const { return cluster_.type_of(device(k)); }
  sim::Route route(Stage from, Stage to) const { return cluster_.route(device(from), device(to)); }

 private:
  const sim::Cluster& cluster_;
  const TaskGraph& graph_;
};

struct Placement {
  std::vector<int> devices, nodes;           ///< by rank
  std::vector<std::string> types;            ///< of device, by rank
  std::vector<std::int64_t> memory;          ///< of the device, by rank
  std::vector<std::pair<int, int>> borders;  ///< neighbouring stages whose ranks are on two nodes
  std::vector<sim::Link> links;              ///< of the cluster, those alike once
};
/// Throws Error like Places.
Placement placement_of(const sim::Cluster& cluster, const TaskGraph& graph);

}  // namespace unlatch::tools
