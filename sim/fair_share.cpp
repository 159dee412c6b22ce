#include "sim/fair_share.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace unlatch::sim {

FairShare::FairShare(std::vector<double> capacities) {
  for (const double capacity : capacities) links_.push_back({.capacity = capacity, .flows = {}});
}

FairShare::Flow FairShare::add(std::span<const Link> route) {
  Flow flow = static_cast<Flow>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    flow = free_.back();
    free_.pop_back();
  }
  flows_[flow].route.assign(route.begin(), route.end());
  flows_[flow].rate = route.empty() ? std::numeric_limits<double>::infinity() : 0;
  for (const Link link : route) links_[link].flows.push_back(flow);
  changed_.clear();
  if (route.empty()) changed_.push_back(flow);
  collect(route);
  fill();
  return flow;
}

void FairShare::remove(Flow flow) {
  const std::vector<Link> route = std::exchange(flows_[flow].route, {});
  for (const Link link : route) std::erase(links_[link].flows, flow);
  free_.push_back(flow);
  changed_.clear();
  collect(route);
  fill();
}

/// Links reached from these by flows that they share, and those flows.
void FairShare::collect(std::span<const Link> from) {
  part_.assign(from.begin(), from.end());
  part_flows_.clear();
  for (const Link link : part_) links_[link].found = true;
  for (std::size_t at = 0; at < part_.size(); ++at) {
    for (const Flow flow : links_[part_[at]].flows) {
      if (!std::exchange(flows_[flow].settled, false)) continue;
      part_flows_.push_back(flow);
      for (const Link link : flows_[flow].route) {
        if (!std::exchange(links_[link].found, true)) part_.push_back(link);
      }
    }
  }
}

/// The link that gives its flows the least settles them, again and again.
void FairShare::fill() {
  for (const Link link : part_) {
    LinkState& state = links_[link];
    state.found = false;
    state.left = state.capacity;
    state.unsettled = static_cast<int>(state.flows.size());
  }
  const auto share = [this](Link link) {
    const LinkState& state = links_[link];
    return state.unsettled == 0 ? std::numeric_limits<double>::infinity()
                                : std::max(0.0, state.left) / state.unsettled;
  };
  std::size_t unsettled = part_flows_.size();
  while (unsettled > 0) {
    const Link tightest = *std::ranges::min_element(part_, {}, share);
    const double rate = share(tightest);
    for (const Flow flow : links_[tightest].flows) {
      FlowState& state = flows_[flow];
      if (std::exchange(state.settled, true)) continue;
      --unsettled;
      if (std::exchange(state.rate, rate) != rate) changed_.push_back(flow);
      for (const Link link : state.route) {
        links_[link].left -= rate;
        --links_[link].unsettled;
      }
    }
  }
}

}  // namespace unlatch::sim
