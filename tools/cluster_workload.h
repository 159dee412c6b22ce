// A model on a cluster: the costs of --model and --cluster, from operations, bytes and links.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/precision.h"
#include "models/layer_facts.h"
#include "models/optimizer.h"
#include "sim/hardware.h"
#include "sim/traffic.h"
#include "tools/arguments.h"
#include "tools/measured.h"

namespace unlatch::tools {

struct ClusterWorkload {
  sim::Cluster cluster;
  models::ModelFacts model;
  exec::Precision precision = exec::Precision::fp32;
  models::OptimizerSpec optimizer;
  bool links_are_shared = false;  ///< --contention fair
  bool tree_reduces = false;      ///< --all-reduce tree, else ring
};

/// --cluster, --placement, --model, --precision, --optimizer, --contention, --all-reduce.
ClusterWorkload read_cluster_workload(const Arguments& arguments);

/// Of one piece of `size` samples: every layer by the roofline of that type of device. In a model
/// of more than one stage the last keeps a copy of what is tied to the first. (The sum of the two
/// copies' gradients is not counted.)
PieceCosts cluster_costs(const ClusterWorkload& workload, const sim::DeviceType& device, int size,
                         int stages);

/// Costs of the layers on the devices of a graph's stages.
struct StagePieces {
  std::vector<PieceCosts> kinds;  ///< one a type of device
  std::vector<int> kind_of = {};  ///< of each stage of all copies; empty: all are of the first kind

  const PieceCosts& of(Stage k) const {
    const auto at = static_cast<std::size_t>(k.value);
    return kinds[static_cast<std::size_t>(kind_of.empty() ? 0 : kind_of[at])];
  }
};
/// Throws Error when the graph has more ranks than the cluster has places.
StagePieces cluster_pieces(const ClusterWorkload& workload, int size, const TaskGraph& graph);

/// From each stage of the model to the next, in the first copy.
std::vector<sim::Route> routes_of(const sim::Cluster& cluster, const TaskGraph& graph);

/// Tapes of a piece of `size` samples on each stage.
std::vector<std::int64_t> cluster_tapes(const ClusterWorkload& workload, int size,
                                        std::span<const models::StageRange> ranges);

}  // namespace unlatch::tools
