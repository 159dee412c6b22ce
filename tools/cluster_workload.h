// A model on a cluster: the costs of --model and --cluster, from operations, bytes and links.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/precision.h"
#include "models/model.h"
#include "models/optimizer.h"
#include "sim/hardware.h"
#include "sim/traffic.h"
#include "tools/arguments.h"
#include "tools/measured.h"

namespace unlatch::tools {

struct ClusterWorkload {
  sim::Cluster cluster;
  models::Model model;
  exec::Precision precision = exec::Precision::fp32;
  models::OptimizerSpec optimizer;
  bool links_are_shared = false;  ///< --contention fair

  /// Of all devices that have a rank.
  const sim::DeviceType& device_type() const {
    return cluster.type_of(cluster.placement().front());
  }
};

/// --cluster, --placement, --model, --precision, --optimizer, --contention.
ClusterWorkload read_cluster_workload(const Arguments& arguments);

/// Of one piece of `size` samples: every layer by the roofline of the cluster's devices.
PieceCosts cluster_costs(const ClusterWorkload& workload, int size);

/// Where the ranks of a graph sit.
struct Placement {
  std::vector<int> devices, nodes;           ///< by rank
  std::vector<std::pair<int, int>> borders;  ///< neighbouring stages whose ranks are on two nodes
};
/// Throws Error when the graph has more ranks than the cluster has places.
Placement placement_of(const sim::Cluster& cluster, const TaskGraph& graph);

/// What goes between ranks takes the links between their devices: sets the transfers and the
/// all-reduces of `times`, whose stages sit where those of the graph do: those of all copies of the
/// model, or of the first. Throws Error when the graph has more ranks than the cluster has places.
void set_transfers(const ClusterWorkload& workload, const PieceCosts& piece,
                   std::span<const models::StageRange> ranges, const TaskGraph& graph,
                   sim::StageTimes& times);

/// From each stage of the model to the next, in the first copy.
std::vector<sim::Route> routes_of(const sim::Cluster& cluster, const TaskGraph& graph);

/// Tapes of a piece of `size` samples on each stage.
std::vector<std::int64_t> cluster_tapes(const ClusterWorkload& workload, int size,
                                        std::span<const models::StageRange> ranges);

/// The same transfers as flows that share links; null where nobody asked for that.
std::shared_ptr<const sim::Traffic> cluster_traffic(const ClusterWorkload& workload,
                                                    const PieceCosts& piece,
                                                    std::span<const models::StageRange> ranges,
                                                    const TaskGraph& graph);

}  // namespace unlatch::tools
