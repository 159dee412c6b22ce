// Placement search: what is interchangeable, all placements, and the way to a better one.
#include "sim/placement_search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two nodes of five devices; in each, one of another type and one behind a slow link.
Cluster odd_nodes() {
  return parse_cluster(R"({"name": "odd",
    "device_types": {
      "X": {"tflops": {"fp32": 1}, "memory": "1GiB", "memory_bandwidth": "1GB/s"},
      "S": {"tflops": {"fp32": 0.5}, "memory": "1GiB", "memory_bandwidth": "1GB/s"}},
    "node": {"devices": [{"type": "X", "count": 1}, {"type": "S", "count": 1},
                         {"type": "X", "count": 3}],
             "switches": ["bus"],
             "links": [{"from": "device0-2", "to": "bus", "bandwidth": "2GB/s", "latency": "1us"},
                       {"from": "device3", "to": "bus", "bandwidth": "1GB/s", "latency": "1us"},
                       {"from": "device4", "to": "bus", "bandwidth": "2GB/s", "latency": "1us"}]},
    "nodes": 2,
    "network": {"switches": ["net"],
                "links": [{"from": "node.bus", "to": "net", "bandwidth": "1GB/s",
                           "latency": "1us"}]}})",
                       "test");
}

TEST(PlacementSearch, DevicesAreAlikeByTypeAndLinks) {
  const Sites sites = sites_of(odd_nodes());
  EXPECT_THAT(sites.kinds, ElementsAre(0, 1, 0, 2, 0, 3, 4, 3, 5, 3));
  EXPECT_THAT(sites_of(odd_nodes().with_placement({4, 1, 2})).kinds, ElementsAre(0, 1, 0));
}

TEST(PlacementSearch, CablesBetweenAllDevicesLeaveThemAlike) {
  const auto kinds = [](const std::string& links) {
    return sites_of(parse_cluster(R"({"name": "mesh", "device_types": {"X": {"tflops": {"fp32": 1},
        "memory": "1GiB", "memory_bandwidth": "1GB/s"}},
        "node": {"devices": {"type": "X", "count": 4}, "links": [)" +
                                      links + "]}}",
                                  "test"))
        .kinds;
  };
  const std::string mesh = R"({"from": "device0", "to": "device1-3", "bandwidth": "1GB/s",
      "latency": "1us"}, {"from": "device1", "to": "device2-3", "bandwidth": "1GB/s",
      "latency": "1us"}, )";
  const std::string last = R"({"from": "device2", "to": "device3", "latency": "1us", )";
  EXPECT_THAT(kinds(mesh + last + R"("bandwidth": "1GB/s"})"), ElementsAre(0, 0, 0, 0));
  // The ends of the other cable are alike, and so are those that are not at it.
  EXPECT_THAT(kinds(mesh + last + R"("bandwidth": "2GB/s"})"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(kinds(mesh + last + R"("bandwidth": "1GB/s", "duplex": "half"})"),
              ElementsAre(0, 0, 1, 1));
}

TEST(PlacementSearch, AllPlacementsAreEachOrderOfKindsOnce) {
  const Sites sites{.devices = {7, 3, 5, 1, 9},
                    .kinds = {0, 1, 0, 2, 0},
                    .nodes = {0, 0, 0, 0, 0},
                    .node_kinds = {0, 0, 0, 0, 0}};
  const auto kind_of = [&](int device) {
    return sites.kinds[std::ranges::find(sites.devices, device) - sites.devices.begin()];
  };
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::set<std::vector<int>> orders;  // of kinds, over all permutations
    std::vector<int> places(5);
    std::iota(places.begin(), places.end(), 0);
    do {
      std::vector<int> kinds;
      for (int r = 0; r < ranks; ++r) kinds.push_back(sites.kinds[places[r]]);
      orders.insert(kinds);
    } while (std::ranges::next_permutation(places).found);
    std::set<std::vector<int>> found;
    const auto count = static_cast<int>(orders.size());
    for (const Devices& devices : all_placements(sites, ranks, count)) {
      EXPECT_EQ(std::set(devices.begin(), devices.end()).size(), devices.size());
      std::vector<int> kinds;
      for (const int device : devices) kinds.push_back(kind_of(device));
      EXPECT_TRUE(found.insert(kinds).second);
    }
    EXPECT_EQ(found, orders);
    EXPECT_THAT(all_placements(sites, ranks, count - 1), IsEmpty());
  }
}

TEST(PlacementSearch, NodesAreAlikeByDevicesAndLinks) {
  EXPECT_THAT(sites_of(odd_nodes()).node_kinds, testing::Each(0));
  // One of the second node has no site.
  EXPECT_THAT(sites_of(odd_nodes().with_placement({0, 1, 5})).node_kinds, ElementsAre(0, 0, 1));
  EXPECT_THAT(sites_of(odd_nodes().with_placement({0, 1, 6, 5})).node_kinds,
              ElementsAre(0, 0, 0, 0));
  const auto far = [](const std::string& links) {
    return parse_cluster(R"({"name": "far", "device_types": {"X": {"tflops": {"fp32": 1},
        "memory": "1GiB", "memory_bandwidth": "1GB/s"}},
        "node": [{"devices": {"type": "X", "count": 2}, "switches": ["bus"], "count": 2,
                  "links": [{"from": "device", "to": "bus", "bandwidth": "1GB/s",
                             "latency": "1us"}]},
                 {"devices": {"type": "X", "count": 2}, "switches": ["bus"],
                  "links": [{"from": "device", "to": "bus", "bandwidth": ")" +
                             links + R"(", "latency": "1us"}]}],
        "network": {"switches": ["net"], "links": [{"from": "node.bus", "to": "net",
                    "bandwidth": "1GB/s", "latency": "1us"}]}})",
                         "test");
  };
  EXPECT_THAT(sites_of(far("1GB/s")).node_kinds, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(sites_of(far("2GB/s")).node_kinds, ElementsAre(0, 0, 0, 0, 1, 1));
}

/// What a placement is but for the numbers of nodes alike and of devices alike in them.
std::vector<std::pair<int, int>> pattern(const Devices& devices) {
  std::vector<std::pair<int, int>> ranks;
  std::vector<int> nodes;
  for (const int device : devices) {
    const auto seen = std::ranges::find(nodes, device / 5);
    const int place = device % 5;
    ranks.emplace_back(seen - nodes.begin(), place == 2 || place == 4 ? 0 : place);
    if (seen == nodes.end()) nodes.push_back(device / 5);
  }
  return ranks;
}

TEST(PlacementSearch, OfNodesAlikeOnlyThePatternCounts) {
  const Sites sites = sites_of(odd_nodes());
  const Likeness likeness(sites);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    std::set<std::vector<std::pair<int, int>>> patterns, found;
    for (int code = 0; code < static_cast<int>(std::pow(10, ranks)); ++code) {
      Devices devices;
      for (int r = 0, rest = code; r < ranks; ++r, rest /= 10) devices.push_back(rest % 10);
      if (std::set(devices.begin(), devices.end()).size() == devices.size()) {
        patterns.insert(pattern(devices));
      }
    }
    const auto count = static_cast<int>(patterns.size());
    for (const Devices& devices : all_placements(sites, ranks, count)) {
      EXPECT_TRUE(found.insert(pattern(devices)).second);
    }
    EXPECT_EQ(found, patterns);
    for (const Devices& devices : all_placements(sites, ranks, count)) {
      EXPECT_EQ(likeness.representative(devices), devices);
      Devices turned;  // the other node
      for (const int device : devices) turned.push_back((device + 5) % 10);
      EXPECT_EQ(likeness.representative(turned), devices);
    }
  }
  EXPECT_THAT(all_placements(sites, 11, 1000), IsEmpty());
}

TEST(PlacementSearch, FillsNodesAndTypesFastestFirst) {
  const Sites sites{.devices = {0, 1, 2, 3},
                    .kinds = {0, 1, 2, 3},
                    .nodes = {0, 0, 1, 1},
                    .node_kinds = {0, 0, 1, 1},
                    .types = {0, 1, 0, 2},
                    .speeds = {1, 2, 1, 3}};
  const auto all = filling_placements(sites, 1, 2);
  for (const Devices& wanted :
       std::vector<Devices>{{1, 0}, {3, 2}, {0, 2}, {1, 3}, {3, 1}, {2, 3}}) {
    EXPECT_THAT(all, testing::Contains(wanted));
  }
  EXPECT_THAT(filling_placements(sites, 2, 2), testing::Contains(Devices{3, 1, 2, 0}));
  EXPECT_THAT(filling_placements(sites, 2, 3), IsEmpty());
}

TEST(PlacementSearch, WholeNodesChangePlaces) {
  const Sites sites{
      .devices = {0, 1, 2, 3, 4, 5}, .kinds = {0, 1, 2, 3, 4, 5}, .nodes = {0, 0, 1, 1, 2, 2}};
  // Only a whole pipeline in the last node is better than one in the first.
  const auto score = [](const Devices& devices) {
    const int node = devices[0] / 2;
    const bool is_whole = devices[1] / 2 == node;
    return SplitScore{.period_ns = is_whole ? 3.0 - node : 10.0};
  };
  EXPECT_THAT(descend(sites, {0, 1}, 1000, score), ElementsAre(4, 5));
}

/// How far ranks are from the devices that they want: 5, 4, 3.. for ranks 0, 1, 2..
SplitScore distance(const Devices& devices) {
  double sum = 0;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    sum += std::abs(devices[r] - (5 - static_cast<int>(r)));
  }
  return {.period_ns = sum};
}

TEST(PlacementSearch, SwapsAndMovesLeadToTheBestWithinTheirNumber) {
  const Sites sites{
      .devices = {0, 1, 2, 3, 4, 5}, .kinds = {0, 1, 2, 3, 4, 5}, .nodes = {0, 0, 0, 0, 0, 0}};
  EXPECT_THAT(descend(sites, {0, 1, 2}, 1000, distance), ElementsAre(5, 4, 3));
  EXPECT_THAT(descend(sites, {0, 1, 2, 3, 4, 5}, 1000, distance), ElementsAre(5, 4, 3, 2, 1, 0));
  for (const int most : {1, 2, 5, 9}) {
    int scored = 0;
    const Devices found = descend(sites, {0, 1, 2}, most, [&](const Devices& devices) {
      ++scored;
      return distance(devices);
    });
    EXPECT_EQ(scored, most);
    EXPECT_LE(distance(found), distance({0, 1, 2}));
  }
}

TEST(PlacementSearch, DevicesOfAKindAreNotSwapped) {
  const Sites alike{.devices = {0, 1, 2, 3}, .kinds = {0, 0, 0, 0}, .nodes = {0, 0, 0, 0}};
  int scored = 0;
  descend(alike, {0, 1, 2}, 1000, [&](const Devices& devices) {
    ++scored;
    return distance(devices);
  });
  EXPECT_EQ(scored, 1);
}

}  // namespace
}  // namespace unlatch::sim
