#include "sim/hardware.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "schedules/error.h"

namespace unlatch::sim {

std::vector<bool> Cluster::Parts::reached() const {
  std::vector<bool> seen(ways.size(), false);
  std::vector<int> open{0};
  seen[0] = true;
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const Way& way : ways[at]) {
      if (!seen[way.to]) open.push_back(way.to);
      seen[way.to] = true;
    }
  }
  return seen;
}

Cluster::Cluster(Parts parts) : parts_(std::move(parts)) {
  require(devices() > 0, "{}: it has no devices", parts_.name);
  // Links go both ways, so that one device which reaches all is enough.
  const std::vector<bool> reached = parts_.reached();
  const auto missing = std::ranges::find(reached, false) - reached.begin();
  require(missing >= devices(), "{}: device {} cannot be reached from device 0; give it a link",
          parts_.name, missing);
}

Cluster Cluster::with_placement(std::vector<int> placement) const {
  std::vector<bool> taken(parts_.devices.size(), false);
  for (const int device : placement) {
    require(device >= 0 && device < devices(), "{}: there is no device {}, only 0 to {}",
            parts_.name, device, devices() - 1);
    require(!taken[device], "{}: device {} has a rank already", parts_.name, device);
    taken[device] = true;
  }
  Parts parts = parts_;
  parts.placement = std::move(placement);
  return Cluster(std::move(parts));
}

bool Cluster::interchangeable(int a, int b) const {
  if (a == b) return true;
  if (type_index(a) != type_index(b) || node_of(a) != node_of(b)) return false;
  // What a link can carry, whether both ways share it, and where it leads, but for the other one.
  const auto links_of = [&](int from, int other) {
    std::vector<std::tuple<double, nanoseconds, bool, int>> links;
    for (const Parts::Way& way : parts_.ways[from]) {
      if (way.to == other) continue;
      const Link& link = parts_.links[way.link];
      const bool shared = std::ranges::any_of(
          parts_.ways[way.to], [&](const Parts::Way& back) { return back.link == way.link; });
      links.emplace_back(link.rate, link.latency, shared, way.to);
    }
    return links;
  };
  return links_of(a, b) == links_of(b, a);
}

Route Cluster::route(int from, int to) const {
  struct Reached {
    int hops = std::numeric_limits<int>::max();
    nanoseconds latency{0};
    int link = -1;
    int before = -1;
  };
  using Entry = std::tuple<int, std::int64_t, int, int>;  // hops, latency, order of finding, vertex
  std::vector<Reached> reached(parts_.ways.size());
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  int found = 0;
  reached[from].hops = 0;
  open.emplace(0, 0, found++, from);
  while (!open.empty()) {
    const auto [hops, latency, order, at] = open.top();
    open.pop();
    if (at == to) break;
    if (std::pair(hops, latency) != std::pair(reached[at].hops, reached[at].latency.count())) {
      continue;
    }
    for (const Parts::Way& way : parts_.ways[at]) {
      const nanoseconds there = reached[at].latency + parts_.links[way.link].latency;
      Reached& next = reached[way.to];
      if (std::pair(hops + 1, there) >= std::pair(next.hops, next.latency)) continue;
      next = {hops + 1, there, way.link, at};
      open.emplace(hops + 1, there.count(), found++, way.to);
    }
  }
  Route route{
      .links = {}, .latency = reached[to].latency, .rate = std::numeric_limits<double>::infinity()};
  for (int at = to; at != from; at = reached[at].before) {
    route.links.push_back(reached[at].link);
    route.rate = std::min(route.rate, parts_.links[reached[at].link].rate);
  }
  std::ranges::reverse(route.links);
  return route;
}

}  // namespace unlatch::sim
