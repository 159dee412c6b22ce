// FairShare: the rates of flows that share links, each link's capacity divided max-min fairly.
#pragma once

#include <span>
#include <vector>

namespace unlatch::sim {

/// A flow uses every link of its route at one rate. No flow can go faster without one that is not
/// faster going slower: the rates are those of progressive filling (Bertsekas and Gallager, Data
/// Networks, 1992, section 6.5.2). What does not share a link with a change, directly or through
/// others, is not looked at.
class FairShare {
 public:
  using Flow = int;
  using Link = int;

  /// Capacities in any unit a unit of time, greater than 0.
  explicit FairShare(std::vector<double> capacities);

  /// A route that names no link is not limited: its rate is infinite. Names each link once.
  Flow add(std::span<const Link> route);
  void remove(Flow flow);
  double rate(Flow flow) const { return flows_[flow].rate; }
  /// The flows whose rate the last add() or remove() changed, the new one included.
  std::span<const Flow> changed() const& { return changed_; }

 private:
  struct FlowState {
    std::vector<Link> route;
    double rate = 0;
    bool settled = true;  ///< while rates are being found
  };
  struct LinkState {
    double capacity = 0;
    std::vector<Flow> flows;
    double left = 0;  ///< while rates are being found, of the capacity
    int unsettled = 0;
    bool found = false;
  };
  void collect(std::span<const Link> from);
  void fill();

  std::vector<FlowState> flows_;
  std::vector<LinkState> links_;
  std::vector<Flow> free_;
  std::vector<Flow> changed_;
  std::vector<Link> part_;        ///< links that a change can reach
  std::vector<Flow> part_flows_;  ///< their flows
};

}  // namespace unlatch::sim
