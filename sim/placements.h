// Placements: ways to put the ranks of pipelines and their replicas on the nodes of a cluster.
#pragma once

#include <string_view>
#include <vector>

#include "sim/hardware.h"

namespace unlatch::sim {

struct Placement {
  std::string_view how;      ///< "in order", ..
  std::vector<int> devices;  ///< by rank, replica after replica
};

/// Orders of the first `replicas` x `ranks` devices of the cluster's own placement, each once:
/// "in order" (a pipeline fills a node, then the next), "nodes in turn" (neighbouring ranks on
/// different nodes) and "replicas together" (the replicas of a stage beside each other, their
/// pipelines across nodes). Only the first where all of these devices are in one node, or where the
/// cluster has too few.
std::vector<Placement> placements(const Cluster& cluster, int replicas, int ranks);

}  // namespace unlatch::sim
