// What goes between the ranks of a graph on a cluster: messages, and what keeps copies of a model
// together.
#pragma once

#include <span>
#include <vector>

#include "sim/stage_costs.h"
#include "sim/traffic.h"
#include "tools/cluster_workload.h"

namespace unlatch::tools {

/// Every stage sends its output on and its input's gradient back, over the route between two
/// devices. Copies of a stage sum what they found in a ring or in trees, or send it to a server,
/// which sits where the first copy does, and get its weights back.
class ClusterTraffic final : public sim::Traffic {
 public:
  /// Throws Error when the graph has more ranks than the cluster has places.
  ClusterTraffic(const ClusterWorkload& workload, const StagePieces& pieces,
                 std::span<const models::StageRange> ranges, const TaskGraph& graph);

  const std::vector<double>& links() const override { return links_; }
  std::span<const sim::Transfer> transfers(const Task& task) const override;

  /// Sets the times of all this, each with the links to itself. The stages of `times` are those of
  /// the graph or of its first copy.
  void set_times(sim::StageTimes& times) const;

 private:
  using ByStage = std::vector<std::vector<sim::Transfer>>;

  std::vector<double> links_;  ///< bytes a second
  ByStage forward_, backward_;
  ByStage push_, pull_;                  ///< empty without a server
  ByStage all_reduce_;                   ///< of the first copy; empty with a server
  std::vector<nanoseconds> server_sum_;  ///< of the first copy; empty but for a server that sums
};

}  // namespace unlatch::tools
