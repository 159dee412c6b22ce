#include "sim/all_reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "schedules/error.h"

namespace unlatch::sim {
namespace {

Collective around_a_ring(int members, double share, int steps) {
  Collective ring;
  if (members < 2) return ring;
  ring.steps = steps;
  for (int m = 0; m < members; ++m) ring.flows.push_back({m, (m + 1) % members, share});
  return ring;
}

/// Of a binary tree over 0..n-1 whose odd members are its leaves; 0 is the root.
int parent_in_tree(int member, int members) {
  const int level = member & -member;
  const int parent = (member ^ level) | (level << 1);
  return parent < members ? parent : member ^ level;
}

}  // namespace

Collective ring_all_reduce(int members) {
  return around_a_ring(members, 2.0 * (members - 1) / members, 2 * (members - 1));
}

Collective ring_all_gather(int members) { return around_a_ring(members, members - 1, members - 1); }

/// The second tree is the first seen from the other end where that makes leaves of inner members,
/// with an even number of them, else the first moved on by one.
Collective tree_all_reduce(int members) {
  Collective trees;
  if (members < 2) return trees;
  trees.steps = 2 * std::bit_width(static_cast<unsigned>(members - 1));  // 2 log2, rounded up
  const auto in_second = [members](int member) {
    return members % 2 == 0 ? members - 1 - member : (member + 1) % members;
  };
  for (int m = 1; m < members; ++m) {
    const int parent = parent_in_tree(m, members);
    for (const auto& [child, above] :
         {std::pair(m, parent), std::pair(in_second(m), in_second(parent))}) {
      trees.flows.push_back({child, above, 0.5});
      trees.flows.push_back({above, child, 0.5});
    }
  }
  return trees;
}

std::vector<Transfer> transfers_of(const Collective& collective, double bytes,
                                   const std::function<Route(int from, int to)>& route) {
  std::vector<Transfer> transfers;
  nanoseconds slowest{0};
  for (const Collective::Flow& flow : collective.flows) {
    Route way = route(flow.from, flow.to);
    slowest = std::max(slowest, way.latency);
    transfers.push_back({.route = std::move(way.links), .bytes = flow.share * bytes});
  }
  for (Transfer& transfer : transfers) transfer.latency = collective.steps * slowest;
  return transfers;
}

nanoseconds time_alone(std::span<const Transfer> transfers, std::span<const double> rates) {
  std::map<int, double> bytes_of_link;
  nanoseconds latency{0};
  for (const Transfer& transfer : transfers) {
    latency = std::max(latency, transfer.latency);
    for (const int link : transfer.route) bytes_of_link[link] += transfer.bytes;
  }
  double ns = 0;
  for (const auto& [link, bytes] : bytes_of_link) {
    ns = std::max(ns, bytes / rates[static_cast<std::size_t>(link)] * 1e9);
  }
  constexpr double most_ns = 4e18;
  require(ns < most_ns, "a transfer would last longer than 126 years; check the hardware file");
  return latency + nanoseconds(std::llround(ns));
}

}  // namespace unlatch::sim
