// Hardware files: those that come with the program, routes, and one error with the place for each
// fault.
#include "sim/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json two_nodes = json::parse(R"({
  "name": "two nodes",
  "device_types": {"X": {"tflops": {"fp32": 10}, "memory": "16GiB", "memory_bandwidth": "500GB/s"}},
  "node": {
    "devices": {"type": "X", "count": 3},
    "switches": ["root", "nic"],
    "links": [
      {"from": "device", "to": "root", "bandwidth": "16GB/s", "latency": "5us"},
      {"from": "root", "to": "nic", "bandwidth": "16GB/s", "latency": "1us"},
      {"from": "device0", "to": "device1-2", "bandwidth": "25GB/s", "latency": "2us", "duplex": "half"}
    ]
  },
  "nodes": 2,
  "network": {
    "switches": ["spine"],
    "links": [{"from": "node.nic", "to": "spine", "bandwidth": "100Gbit/s", "latency": "2us"}]
  }
})");

Cluster parsed(const json& file) { return parse_cluster(file.dump(), "c.json"); }

TEST(Hardware, NumbersDevicesNodeByNode) {
  const Cluster cluster = parsed(two_nodes);
  EXPECT_EQ(cluster.devices(), 6);
  EXPECT_EQ(cluster.nodes(), 2);
  EXPECT_EQ(cluster.node_of(2), 0);
  EXPECT_EQ(cluster.node_of(3), 1);
  EXPECT_THAT(cluster.placement(), testing::ElementsAre(0, 1, 2, 3, 4, 5));
  const DeviceType& type = cluster.type_of(5);
  EXPECT_EQ(type.flops.at("fp32"), 10e12);
  EXPECT_EQ(type.memory, std::int64_t{16} << 30);
  EXPECT_EQ(type.memory_rate, 500e9);
}

TEST(Hardware, TakesTheFewestLinks) {
  const Cluster cluster = parsed(two_nodes);
  const Route direct = cluster.route(0, 2);
  EXPECT_EQ(direct.links.size(), 1U);
  EXPECT_EQ(direct.rate, 25e9);
  EXPECT_EQ(direct.latency, std::chrono::microseconds(2));
  EXPECT_EQ(cluster.route(2, 0).links, direct.links) << "both ways share a half-duplex cable";
  const Route around = cluster.route(1, 2);
  EXPECT_EQ(around.links.size(), 2U);
  EXPECT_EQ(around.latency, std::chrono::microseconds(4));  // by device 0, not by the root
  EXPECT_EQ(around.rate, 25e9);
  const Route far = cluster.route(1, 4);
  EXPECT_EQ(far.links.size(), 6U);
  EXPECT_EQ(far.rate, 100e9 / 8);
  EXPECT_EQ(far.latency, std::chrono::microseconds(5 + 1 + 2 + 2 + 1 + 5));
  EXPECT_THAT(cluster.route(4, 1).links, testing::Not(testing::Eq(far.links)));
  EXPECT_TRUE(cluster.route(3, 3).links.empty());
}

TEST(Hardware, OfRoutesAlikeTakesTheFasterWhereverItStandsInTheFile) {
  const json slow{{"from", "device"}, {"to", "pcie"}, {"bandwidth", "16GB/s"}, {"latency", "2us"}};
  const json fast{
      {"from", "device"}, {"to", "nvlink"}, {"bandwidth", "300GB/s"}, {"latency", "2us"}};
  json file = two_nodes;
  file["nodes"] = 1;
  file.erase("network");
  file["node"]["switches"] = {"pcie", "nvlink"};
  for (const json& links : {json{slow, fast}, json{fast, slow}}) {
    file["node"]["links"] = links;
    EXPECT_EQ(parsed(file).route(0, 1).rate, 300e9);
  }
}

TEST(Hardware, PlacesRanksAsTheFileSays) {
  json file = two_nodes;
  file["placement"] = {3, 0, 4};
  EXPECT_THAT(parsed(file).placement(), testing::ElementsAre(3, 0, 4));
}

/// Nodes of a slow and two fast devices, and one of fast ones alone.
json mixed() {
  json file = two_nodes;
  file["device_types"]["Y"] = {
      {"tflops", {{"fp32", 20}}}, {"memory", "32GiB"}, {"memory_bandwidth", "900GB/s"}};
  json first = file["node"];
  first["count"] = 2;
  first["devices"] = {{{"type", "X"}, {"count", 1}}, {{"type", "Y"}, {"count", 2}}};
  json second = file["node"];
  second["devices"] = {{"type", "Y"}, {"count", 4}};
  file["node"] = {first, second};
  file.erase("nodes");
  return file;
}

TEST(Hardware, MixesDevicesWithinAndBetweenNodes) {
  const Cluster cluster = parsed(mixed());
  ASSERT_EQ(cluster.devices(), 3 + 3 + 4);
  EXPECT_EQ(cluster.nodes(), 3);
  std::string types;
  std::vector<int> nodes;
  for (int d = 0; d < cluster.devices(); ++d) {
    types += cluster.type_of(d).name;
    nodes.push_back(cluster.node_of(d));
  }
  EXPECT_EQ(types, "XYYXYYYYYY");
  EXPECT_THAT(nodes, testing::ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 2));
  // From the first node to the last by root, nic, spine, nic and root.
  const Route far = cluster.route(1, 9);
  EXPECT_EQ(far.links.size(), 6U);
  EXPECT_EQ(far.latency, std::chrono::microseconds(5 + 1 + 2 + 2 + 1 + 5));
  EXPECT_EQ(cluster.route(6, 7).links.size(), 1U) << "device0 to device1 of the second kind";
}

TEST(Hardware, NamesThePlaceOfFaultsInMixedNodes) {
  const auto error = [](const char* at, const json& value) {
    json file = mixed();
    file[json::json_pointer(at)] = value;
    return error_of([&] { parsed(file); });
  };
  EXPECT_THAT(error("/nodes", 2), HasSubstr("c.json, nodes: 'node' is a list here"));
  EXPECT_THAT(error("/node/0/devices/1/type", "Z"),
              HasSubstr("c.json, node[0].devices[1].type: there is no device type 'Z'"));
  EXPECT_THAT(error("/node/1/links/2/to", "device4"),
              HasSubstr("c.json, node[1].links[2].to: 'device4': a node has devices 0 to 3"));
  EXPECT_THAT(error("/node/0/count", 0), HasSubstr("c.json, node[0].count: 0 must be"));
  EXPECT_THAT(error("/node/1/devices/count", 1 << 16), HasSubstr("at most 65536 devices in all"));
}

TEST(Hardware, ReadsTheClustersThatComeWithTheProgram) {
  for (const std::string_view name : cluster_names()) {
    SCOPED_TRACE(name);
    const Cluster cluster = read_cluster(std::string(name));
    EXPECT_GE(cluster.devices(), 4);
    const int last = cluster.devices() - 1;
    EXPECT_GT(cluster.route(0, last).rate, 1e9);
    EXPECT_EQ(cluster.route(0, last).links.size(), cluster.nodes() > 1 ? 4U : 2U);
    for (const auto& [format, flops] : cluster.type_of(0).flops) EXPECT_GT(flops, 1e12) << format;
  }
}

/// The names under "properties", wherever in a schema.
void take_properties(const json& schema, std::set<std::string>& names) {
  if (!schema.is_structured()) return;
  for (const auto& [key, value] : schema.items()) {
    if (key == "properties") {
      for (const auto& [name, ignored] : value.items()) names.insert(name);
    }
    take_properties(value, names);
  }
}

/// The keys of all objects, without the names that files choose for device types.
void take_keys(const json& value, std::set<std::string>& keys) {
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) {
    if (value.is_object()) keys.insert(key);
    if (key == "device_types") {
      for (const json& type : inner) take_keys(type, keys);
    } else {
      take_keys(inner, keys);
    }
  }
}

// What the reader takes is what the schema says: a file with every key of it, and no other key.
TEST(Hardware, HasAPublishedSchema) {
  std::ifstream in(UNLATCH_SOURCE_DIR "/data/clusters/hardware.schema.json");
  std::set<std::string> published, used, shipped;
  take_properties(json::parse(in), published);
  json full = two_nodes;
  full["source"] = "by hand";
  full["placement"] = {0};
  full["device_types"]["X"]["achieved"] = 0.5;
  full["device_types"]["X"]["launch"] = "5us";
  for (const char* format : {"fp64", "tf32", "bf16", "fp16", "fp8"}) {
    full["device_types"]["X"]["tflops"][format] = 1;
  }
  EXPECT_EQ(parsed(full).devices(), 6);
  take_keys(full, used);
  EXPECT_EQ(used, published);
  for (const std::string_view name : cluster_names()) {
    std::ifstream file(fmt::format("{}/data/clusters/{}.json", UNLATCH_SOURCE_DIR, name));
    take_keys(json::parse(file), shipped);
  }
  EXPECT_TRUE(std::ranges::includes(published, shipped)) << json(shipped);
}

// The schema's bounds are the reader's. (A JSON schema takes 4.0 for an integer.)
TEST(Hardware, TakesTheCountsOfTheSchema) {
  std::ifstream in(UNLATCH_SOURCE_DIR "/data/clusters/hardware.schema.json");
  const json schema = json::parse(in);
  const json& count = schema["$defs"]["count"];
  for (const auto& [schema_of, at] : {std::pair("/properties/nodes", "/nodes"),
                                      {"/$defs/group/properties/count", "/node/devices/count"}}) {
    EXPECT_EQ(schema[json::json_pointer(schema_of)]["$ref"], "#/$defs/count");
    for (const json& value : {count["minimum"], json(3.0)}) {
      json file = two_nodes;
      file["node"]["devices"]["count"] = file["nodes"] = 1;
      file[json::json_pointer(at)] = value;
      file["node"]["links"].erase(2);
      EXPECT_EQ(parsed(file).devices(), value.get<int>()) << at;
    }
  }
  EXPECT_EQ(count["maximum"], 65536);  // 65537 is among the faults below
  EXPECT_EQ(schema["$defs"]["text"]["minLength"], 1);
  EXPECT_EQ(schema["properties"]["name"]["$ref"], "#/$defs/text");
}

struct Fault {
  const char* at;  ///< JSON pointer
  json value;      ///< null: the key is taken out
  const char* message;
};

TEST(Hardware, NamesThePlaceOfEveryFault) {
  const std::vector<Fault> faults{
      {"/name", nullptr, "c.json: there is no 'name'"},
      {"/nodes", 0, "c.json, nodes: 0 must be a whole number in 1.."},
      {"/nodes", 1.5, "c.json, nodes: 1.5 must be a whole number"},
      {"/nodes", 1 << 16, "at most 65536 devices in all"},
      {"/extra", 1, "c.json: unknown key 'extra'"},
      {"/device_types/X/tflops/fp31", 1, "c.json, device_types.X.tflops: unknown number format"},
      {"/device_types/X/tflops/fp32", -1, "c.json, device_types.X.tflops.fp32: -1 must be"},
      {"/device_types/X/tflops/fp32", "fast", "tflops.fp32: \"fast\" must be a number"},
      {"/device_types/X/memory", "16", "c.json, device_types.X.memory"},
      {"/device_types/X/memory", 16, "X.memory: '16' needs a unit; the units are B, kB, MB, GB"},
      {"/device_types/X/memory_bandwidth", 500, "'500': needs a unit; the units are bit/s, kbit/s"},
      {"/node/links/1/bandwidth", 25, "bandwidth '25': needs a unit; the units are bit/s, kbit/s"},
      {"/node/links/1/latency", 0, "c.json, node.links[1].latency: '0' has no unit"},
      {"/source", 4, "c.json, source: 4 must be a text"},
      {"/source", "", "c.json, source: \"\" must be a text"},
      {"/device_types", {{"", json::object()}}, "device_types: a device type has an empty name"},
      {"/node/links/1/to", "root", "node.links[1]: it joins switch 'root' with itself"},
      {"/node/links/2/to", "device0", "node.links[2]: it joins device 0 with itself"},
      {"/network/links/0/from", "spine", "network.links[0]: it joins switch 'spine' with itself"},
      {"/nodes", 65537, "c.json, nodes: 65537 must be a whole number in 1..65536"},
      {"/device_types/X/memory_bandwidth", "500", "c.json, device_types.X.memory_bandwidth"},
      {"/device_types/X/achieved", 1.5, "achieved: 1.5 must be a number in 0.001..1"},
      {"/node/devices/type", "Y", "c.json, node.devices.type: there is no device type 'Y'"},
      {"/node/links/0/from", "gpu", "c.json, node.links[0].from: 'gpu' is no switch of the node"},
      {"/node/links/2/to", "device1-3", "'device1-3': a node has devices 0 to 2"},
      {"/node/links/2/to", "device2-1", "ends before it begins"},
      {"/node/links/2/duplex", "both", "c.json, node.links[2].duplex: 'both' must be full or half"},
      {"/node/links/1/bandwidth", "16", "c.json, node.links[1].bandwidth"},
      {"/node/links/1/bandwidth", "0GB/s", "greater than 0"},
      {"/node/links/1/bandwidth", "1e-300B/s", "'1e-300B/s' is less than a byte a second"},
      {"/node/links/1/latency", "-1us", "c.json, node.links[1].latency"},
      {"/node/links/1/latency", "1", "c.json, node.links[1].latency: '1' has no unit"},
      {"/device_types/X/launch", "5", "c.json, device_types.X.launch: '5' has no unit"},
      {"/node/links/1/latency", "1001s", "'1001s' is more than 1000 s"},
      {"/device_types/X/tflops/fp32", 1e7,
       "tflops.fp32: 10000000.0 must be a number in 1e-06..1000000"},
      {"/device_types/X/memory_bandwidth", "1e300GB/s",
       "X.memory_bandwidth: '1e300GB/s' is more than an exabyte a second (1e9 GB/s)"},
      {"/device_types/X/memory_bandwidth", "0.1B/s", "'0.1B/s' is less than a byte a second"},
      {"/node/links/1/bandwidth", "1.1e9GB/s", "c.json, node.links[1].bandwidth: '1.1e9GB/s' is"},
      {"/node/links/3",
       {{"from", "root"}, {"to", "device0"}, {"bandwidth", "1GB/s"}, {"latency", "1us"}},
       "c.json, node.links[3]: it joins switch 'root' and device 0, as c.json, node.links[0] does"},
      {"/node/links/1/from", "nic", "c.json, node.links[1]: it joins switch 'nic' with itself"},
      {"/network/switches/1", "leaf",
       "c.json, network.switches[1]: no link reaches the switch 'leaf' from the devices"},
      {"/node/switches/2", "left",
       "c.json, node.switches[2]: no link reaches the switch 'left' from the devices"},
      {"/node/links/1/to", "a\nb", "c.json, node.links[1].to: \"a\\nb\" holds control characters"},
      {"/node/switches/1", "root", "c.json, node.switches[1]: there are two switches 'root'"},
      {"/node/switches/1", "device7", "'device7' means devices"},
      {"/node/links", json::array(), "c.json, node.links: must be a list that is not empty"},
      {"/network/links/0/from", "node.eth", "c.json, network.links[0].from: 'node.eth' must be a"},
      {"/placement", {0, 6}, "c.json, placement[1]: 6 must be a whole number in 0..5"},
      {"/placement", {0, 1, 0}, "c.json, placement[2]: device 0 has a rank already"},
      {"/network", nullptr,
       "c.json, network.links: device 3 (of node 1) cannot be reached from device 0"},
  };
  for (const Fault& fault : faults) {
    json file = two_nodes;
    const json::json_pointer at(fault.at);
    if (fault.value.is_null()) {
      file.erase(at.back());
    } else {
      file[at] = fault.value;
    }
    EXPECT_THAT(error_of([&] { parsed(file); }), HasSubstr(fault.message)) << fault.at;
  }
}

TEST(Hardware, NamesADeviceWithoutALink) {
  json file = two_nodes;
  file["node"]["links"][0]["from"] = "device0";
  file["node"]["links"][2]["to"] = "device1";
  EXPECT_THAT(
      error_of([&] { parsed(file); }),
      HasSubstr("c.json, node.links: device 2 (of node 0) cannot be reached from device 0"));
}

// Each pair is named twice, from either end, and has one cable of two ways.
TEST(Hardware, JoinsAllDevicesOfANodeByOneLink) {
  json file = two_nodes;
  file["node"]["links"][2]["from"] = "device";
  file["node"]["links"][2]["to"] = "device";
  file["node"]["links"][2]["duplex"] = "full";
  const Cluster cluster = parsed(file);
  constexpr std::size_t pairs = 3, to_root = 3, to_nic = 1, to_spine = 1, nodes = 2, ways = 2;
  EXPECT_EQ(cluster.links().size(), ways * nodes * (pairs + to_root + to_nic + to_spine));
  EXPECT_EQ(cluster.route(1, 2).links.size(), 1U);
}

TEST(Hardware, RefusesMoreLinksThanItCanHold) {
  json file = two_nodes;
  file["node"]["devices"]["count"] = 1 << 15;
  file["node"]["links"][0]["to"] = "device";
  EXPECT_THAT(error_of([&] { parsed(file); }),
              HasSubstr("c.json, node.links[0]: more than 1048576 links; use a switch"));
}

TEST(Hardware, RefusesWhatIsNoJson) {
  EXPECT_THAT(error_of([] { parse_cluster("{\n\"name\": \"x\",\n,}", "c.json"); }),
              HasSubstr("c.json, line 3: this is not JSON"));
  EXPECT_THAT(error_of([] { parse_cluster("{\"name\": \"x\", \"name\": \"y\"}", "c.json"); }),
              HasSubstr("c.json, line 1: key 'name' is given twice in the outermost object, first "
                        "in line 1"));
  const std::string links =
      "{\n\"node\": {\n\"links\": [{\"from\": \"a\"},\n{\"to\": \"a\",\n\"to\": \"b\"}]}}";
  EXPECT_THAT(
      error_of([&] { parse_cluster(links, "c.json"); }),
      HasSubstr("c.json, line 5: key 'to' is given twice in node.links[1], first in line 4"));
  EXPECT_THAT(error_of([] { parse_cluster("{\"nodes\": 1e309}", "c.json"); }),
              HasSubstr("c.json: a number in it is too large"));
  const std::string deep = fmt::format("{{\"name\": {:[>{}}{:]>{}}}}", "", 1 << 18, "", 1 << 18);
  EXPECT_THAT(error_of([&] { parse_cluster(deep, "c.json"); }),
              HasSubstr("c.json: it is nested more than 20 deep"));
  EXPECT_THAT(error_of([] { read_cluster("8xA10"); }), HasSubstr("Did you mean '8xA100'"));
  EXPECT_THAT(error_of([] { read_cluster("none.json"); }), HasSubstr("none.json"));
}

}  // namespace
}  // namespace unlatch::sim
