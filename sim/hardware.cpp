#include "sim/hardware.h"

#include <algorithm>
#include <limits>
#include <map>
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

bool Cluster::Parts::is_shared(const Way& way) const {
  return std::ranges::any_of(ways[way.to], [&](const Way& back) { return back.link == way.link; });
}

Cluster::Cluster(Parts parts) : parts_(std::move(parts)) {
  require(devices() > 0, "{}: it has no devices", parts_.name);
  // Links go both ways, so that one device which reaches all is enough.
  const std::vector<bool> reached = parts_.reached();
  const auto missing = std::ranges::find(reached, false) - reached.begin();
  require(missing >= devices(), "{}: device {} cannot be reached from device 0; give it a link",
          parts_.name, missing);
}

std::vector<int> Cluster::devices_of(int node) const {
  std::vector<int> devices;
  for (int d = 0; d < this->devices(); ++d) {
    if (node_of(d) == node) devices.push_back(d);
  }
  return devices;
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
      links.emplace_back(link.rate, link.latency, parts_.is_shared(way), way.to);
    }
    return links;
  };
  return links_of(a, b) == links_of(b, a);
}

bool Cluster::nodes_alike(int a, int b) const {
  if (a == b) return true;
  const auto cable = [&](const Parts::Way& way) {
    const Link& link = parts_.links[way.link];
    return std::tuple(link.rate, link.latency, parts_.is_shared(way));
  };
  std::map<int, int> partner;  // of each vertex that moves, and of those beside them
  std::vector<int> open;
  const auto pair = [&](int v, int w) {
    const auto [known, is_new] = partner.try_emplace(v, w);
    if (!is_new) return known->second == w;
    const auto [back, other] = partner.try_emplace(w, v);
    if (v != w) open.push_back(v);
    return back->second == v;
  };
  const std::vector<int> of_a = devices_of(a), of_b = devices_of(b);
  if (of_a.size() != of_b.size()) return false;
  for (std::size_t d = 0; d < of_a.size(); ++d) {
    if (type_index(of_a[d]) != type_index(of_b[d]) || !pair(of_a[d], of_b[d])) return false;
  }
  while (!open.empty()) {
    const auto &from = parts_.ways[open.back()], &other = parts_.ways[partner[open.back()]];
    open.pop_back();
    if (from.size() != other.size()) return false;
    for (std::size_t w = 0; w < from.size(); ++w) {
      const bool switches = from[w].to >= devices() && other[w].to >= devices();
      if (cable(from[w]) != cable(other[w])) return false;
      if (from[w].to != other[w].to && !switches && !partner.contains(from[w].to)) return false;
      if (!pair(from[w].to, other[w].to)) return false;
    }
  }
  return true;
}

Route Cluster::route(int from, int to) const {
  struct Reached {
    int hops = std::numeric_limits<int>::max();
    nanoseconds latency{0};
    double rate = 0;
    int link = -1;
    int before = -1;

    auto length() const { return std::tuple(hops, latency, -rate); }
  };
  using Entry = std::tuple<int, nanoseconds, double, int, int>;  // length, order of finding, vertex
  std::vector<Reached> reached(parts_.ways.size());
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  int found = 0;
  reached[from] = {.hops = 0, .rate = std::numeric_limits<double>::infinity()};
  open.emplace(0, nanoseconds(0), -reached[from].rate, found++, from);
  while (!open.empty()) {
    const auto [hops, latency, slowness, order, at] = open.top();
    open.pop();
    if (at == to) break;
    if (std::tuple(hops, latency, slowness) != reached[at].length()) continue;
    for (const Parts::Way& way : parts_.ways[at]) {
      const Link& link = parts_.links[way.link];
      const Reached next{.hops = hops + 1,
                         .latency = latency + link.latency,
                         .rate = std::min(-slowness, link.rate),
                         .link = way.link,
                         .before = at};
      if (next.length() >= reached[way.to].length()) continue;
      reached[way.to] = next;
      open.emplace(next.hops, next.latency, -next.rate, found++, way.to);
    }
  }
  Route route{.links = {}, .latency = reached[to].latency, .rate = reached[to].rate};
  for (int at = to; at != from; at = reached[at].before) route.links.push_back(reached[at].link);
  std::ranges::reverse(route.links);
  return route;
}

}  // namespace unlatch::sim
