// Fair shares worked out by hand for flows between the devices of small clusters, one a topology.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/fair_share.h"
#include "sim/hardware.h"

namespace unlatch::sim {
namespace {

using nlohmann::json;
using testing::DoubleNear;
using testing::ElementsAre;

json cluster_of(int devices, const std::vector<json>& links) {
  return {{"name", "by hand"},
          {"device_types",
           {{"X", {{"tflops", {{"fp32", 1}}}, {"memory", "1GiB"}, {"memory_bandwidth", "1GB/s"}}}}},
          {"node", {{"devices", {{"type", "X"}, {"count", devices}}}, {"links", links}}}};
}

json link(const char* from, const char* to, const char* bandwidth, const char* duplex = "full") {
  return {
      {"from", from}, {"to", to}, {"bandwidth", bandwidth}, {"latency", "1us"}, {"duplex", duplex}};
}

/// Every device has one link, to a switch.
json star_of(int devices, const char* bandwidth) {
  json star = cluster_of(devices, {link("device", "root", bandwidth)});
  star["node"]["switches"] = {"root"};
  return star;
}

/// GB/s of flows between those devices that are under way at the same time.
std::vector<double> shares(const json& file, const std::vector<std::pair<int, int>>& flows) {
  const Cluster cluster = parse_cluster(file.dump(), "by hand");
  std::vector<double> rates;
  for (const Link& each : cluster.links()) rates.push_back(each.rate / 1e9);
  FairShare fair(rates);
  std::vector<FairShare::Flow> added;
  for (const auto& [from, to] : flows) added.push_back(fair.add(cluster.route(from, to).links));
  std::vector<double> result;
  for (const FairShare::Flow flow : added) result.push_back(fair.rate(flow));
  return result;
}

auto near(double value) { return DoubleNear(value, 1e-9); }

// Three flows down to device 1 have a third of its link; what leaves device 3 beside one of them
// has the rest of the link up.
TEST(Topologies, Star) {
  EXPECT_THAT(shares(star_of(4, "12GB/s"), {{0, 1}, {2, 1}, {3, 1}, {3, 2}}),
              ElementsAre(near(4), near(4), near(4), near(8)));
}

// The middle cable carries three; the long flow is no faster on the other two.
TEST(Topologies, Line) {
  const json line =
      cluster_of(4, {link("device0", "device1", "12GB/s"), link("device1", "device2", "12GB/s"),
                     link("device2", "device3", "12GB/s")});
  EXPECT_THAT(shares(line, {{0, 3}, {0, 1}, {1, 2}, {1, 2}, {2, 3}}),
              ElementsAre(near(4), near(8), near(4), near(4), near(8)));
}

// Two flows share the way out of their node; the one that stays inside has the rest of device 0's
// link. Back from node 1 there is nobody else.
TEST(Topologies, TwoNodesBehindSwitches) {
  json nodes = star_of(4, "20GB/s");
  nodes["nodes"] = 2;
  nodes["network"] = {{"switches", {"fabric"}}, {"links", {link("node.root", "fabric", "10GB/s")}}};
  EXPECT_THAT(shares(nodes, {{0, 4}, {1, 5}, {0, 2}, {6, 3}}),
              ElementsAre(near(5), near(5), near(15), near(10)));
}

TEST(Topologies, FullAgainstHalfDuplex) {
  const std::vector<std::pair<int, int>> flows{{0, 1}, {0, 1}, {1, 0}};
  EXPECT_THAT(shares(cluster_of(2, {link("device0", "device1", "12GB/s")}), flows),
              ElementsAre(near(6), near(6), near(12)));
  EXPECT_THAT(shares(cluster_of(2, {link("device0", "device1", "12GB/s", "half")}), flows),
              ElementsAre(near(4), near(4), near(4)));
}

// Neighbours of a ring of one-way links do not meet; what goes the long way round meets two.
TEST(Topologies, Ring) {
  const json ring =
      cluster_of(4, {link("device0", "device1", "12GB/s"), link("device1", "device2", "12GB/s"),
                     link("device2", "device3", "12GB/s"), link("device3", "device0", "12GB/s")});
  EXPECT_THAT(shares(ring, {{0, 1}, {1, 2}, {0, 2}, {2, 3}, {3, 0}}),
              ElementsAre(near(6), near(6), near(6), near(12), near(12)));
}

}  // namespace
}  // namespace unlatch::sim
