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
  bool tree_reduces = false;      ///< --all-reduce tree, else ring

  /// Of all devices that have a rank.
  const sim::DeviceType& device_type() const {
    return cluster.type_of(cluster.placement().front());
  }
};

/// --cluster, --model, --precision, --optimizer, --contention, --all-reduce.
ClusterWorkload read_cluster_workload(const Arguments& arguments);

/// Of one piece of `size` samples: every layer by the roofline of the cluster's devices.
PieceCosts cluster_costs(const ClusterWorkload& workload, int size);

/// Tapes of a piece of `size` samples on each stage.
std::vector<std::int64_t> cluster_tapes(const ClusterWorkload& workload, int size,
                                        std::span<const models::StageRange> ranges);

}  // namespace unlatch::tools
