// The placements that unlatch search finds, against all placements and splits that there are.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json type(double tflops, const char* memory) {
  return {{"tflops", {{"fp32", tflops}}}, {"memory", memory}, {"memory_bandwidth", "300GB/s"}};
}

/// Nodes on a network; `devices` names the types of each.
json cluster(const json& types, const std::vector<std::vector<std::string>>& devices,
             const std::string& network) {
  json nodes = json::array();
  for (const auto& of_node : devices) {
    json list = json::array();
    for (const std::string& name : of_node) list.push_back({{"type", name}, {"count", 1}});
    nodes.push_back(
        {{"devices", list},
         {"switches", {"bus"}},
         {"links",
          {{{"from", "device"}, {"to", "bus"}, {"bandwidth", "10GB/s"}, {"latency", "5us"}}}}});
  }
  return {
      {"name", "mixed"},
      {"device_types", types},
      {"node", nodes},
      {"network",
       {{"switches", {"net"}},
        {"links",
         {{{"from", "node.bus"}, {"to", "net"}, {"bandwidth", network}, {"latency", "50us"}}}}}}};
}

double period_of(const json& run) { return run["steady_state"]["batch_period_ms"]; }

/// The least period of all orders of the devices with all splits of five layers.
double best_of_all(const Folder& folder, const std::string& simulate, int devices, int ranks) {
  double best = INFINITY;
  std::set<std::vector<int>> tried;
  std::vector<int> order(static_cast<std::size_t>(devices));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<std::string> splits =
      ranks == 2 ? std::vector<std::string>{"1/4", "2/3", "3/2", "4/1"}
                 : std::vector<std::string>{"1/1/3", "1/2/2", "1/3/1", "2/1/2", "2/2/1", "3/1/1"};
  do {
    const std::vector<int> placed(order.begin(), order.begin() + ranks);
    if (!tried.insert(placed).second) continue;
    for (const std::string& split : splits) {
      best = std::min(
          best, period_of(folder.json(fmt::format("{} --placement {} --partition {}", simulate,
                                                  fmt::join(placed, ","), split))));
    }
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST(SearchPlacement, NoPlacementWithAnySplitIsBetterOnMixedClusters) {
  const Folder folder;
  std::mt19937 random(5);
  for (const int ranks : {2, 3}) {
    const auto one_of = [&](const std::vector<double>& values) {
      return values[random() % values.size()];
    };
    const json types{{"A", type(one_of({1, 2, 4}), "1GiB")},
                     {"B", type(one_of({4, 8, 16}), "1GiB")}};
    const std::string network = one_of({1, 2}) == 1 ? "1Gbit/s" : "100Gbit/s";
    folder.write("c.json", cluster(types, {{"A", "B"}, {"A", "B"}}, network).dump());
    const std::string costs =
        "--cluster c.json --data digits --model mlp:hidden=300/100 --batch-size 32 "
        "--microbatches 4 --schedule 1f1b ";
    const json found = folder.json(fmt::format("search {} --ranks {}", costs, ranks))["found"][0];
    SCOPED_TRACE(found["command"].get<std::string>());
    EXPECT_EQ(found["batch_period_ms"],
              best_of_all(folder, fmt::format("simulate {} --stages {}", costs, ranks), 4, ranks));
    EXPECT_EQ(found["all_placements"], true);
    EXPECT_EQ(found["all_splits"], true);
  }
}

/// Two nodes of slow devices in front of one of fast ones, far from each other.
json fast_node_last() {
  const std::vector<std::string> slow(4, "S"), fast(4, "F");
  return cluster({{"S", type(2, "12GB")}, {"F", type(8, "16GB")}}, {slow, slow, fast}, "1Gbit/s");
}

TEST(SearchPlacement, AWholePipelineMovesToTheFastNode) {
  const Folder folder;
  folder.write("three.json", fast_node_last().dump());
  const std::string costs =
      "--cluster three.json --model resnet20 --batch-size 128 --schedule 1f1b --microbatches 8 ";
  for (const auto& [shape, count] :
       {std::pair{"--ranks 3", 3}, {"--ranks 4", 4}, {"--ranks 2 --replicas 2", 4}}) {
    const json found = folder.json(fmt::format("search {}{}", costs, shape))["found"][0];
    EXPECT_EQ(found["placement"].size(), count);
    for (const int device : found["placement"]) EXPECT_GE(device, 8) << shape;
  }
}

TEST(SearchPlacement, EveryCandidateIsAsGoodBesideOthersAsAlone) {
  const Folder folder;
  folder.write("three.json", fast_node_last().dump());
  const std::string costs =
      "search --cluster three.json --model resnet8 --batch-size 32 --microbatches 1,4 --ranks 3 ";
  const std::vector<std::string> schedules{
      "1f1b", "gpipe:recompute=never", "zb-h1", "zb-h2", "pipedream", "bp"};
  std::string all;
  for (const std::string& schedule : schedules) all += fmt::format("--schedule {} ", schedule);
  const json together = folder.json(costs + all)["found"];
  for (const std::string& schedule : schedules) {
    const json by_itself = folder.json(costs + "--schedule " + schedule)["found"];
    for (const json& alone : by_itself) {
      const auto same = std::ranges::find_if(together, [&](const json& found) {
        return found["schedule"] == alone["schedule"] &&
               found["microbatches"] == alone["microbatches"];
      });
      ASSERT_NE(same, together.end()) << alone["schedule"];
      EXPECT_EQ((*same)["batch_period_ms"], alone["batch_period_ms"]) << alone["schedule"];
    }
  }
}

TEST(SearchPlacement, RanksAreHeldToTheMemoryOfTheirOwnDevices) {
  const Folder folder;
  const json types{{"S", type(10, "8MiB")}, {"L", type(10, "16GiB")}};
  folder.write("c.json", cluster(types, {{"S", "S", "L", "L"}}, "10GB/s").dump());
  const std::string costs =
      "--cluster c.json --model resnet20 --batch-size 128 --schedule 1f1b --microbatches 4 ";
  const json found = folder.json("search --ranks 2 " + costs)["found"][0];
  EXPECT_GT(found["peak_memory_bytes"], 8 << 20);
  for (const int device : found["placement"]) EXPECT_GE(device, 2);
  const json run = folder.json(found["command"].get<std::string>().substr(8));
  EXPECT_EQ(period_of(run), found["batch_period_ms"].get<double>());
  const Outcome none = folder.run("search --ranks 4 --memory-limit 4MiB " + costs);
  expect_refused(none);
  EXPECT_THAT(none.err, AllOf(HasSubstr("placements the nearest"), HasSubstr("on devices"),
                              HasSubstr("the limit is 4 MiB")));
}

TEST(SearchPlacement, DevicesThatCannotRunTheFormatAreLeftOut) {
  const Folder folder;
  json types{{"S", type(10, "1GiB")}, {"L", type(10, "1GiB")}};
  types["L"]["tflops"]["bf16"] = 40;
  folder.write("c.json", cluster(types, {{"S", "S", "L", "L"}}, "10GB/s").dump());
  const json found = folder.json(
      "search --ranks 2 --cluster c.json --model resnet20 --batch-size 128 --schedule "
      "1f1b --microbatches 4 --precision bf16")["found"][0];
  for (const int device : found["placement"]) EXPECT_GE(device, 2);
}

TEST(SearchPlacement, TheCommandHasEveryFlagThatCountsForTheFigures) {
  const Folder folder;
  folder.write("three.json", fast_node_last().dump());
  const json found = folder.json(
      "search --cluster three.json --model mlp:hidden=64/32 --data digits --batch-size "
      "16 --ranks 2 --schedule 1f1b --microbatches 2 --memory-limit 64MiB --optimizer "
      "adam --contention fair --overlap 0.5 --precision fp32")["found"][0];
  for (const char* flag :
       {"--memory-limit 64MiB", "--optimizer adam", "--contention fair", "--overlap 0.5",
        "--precision fp32", "--data digits", "--batch-size 16"}) {
    EXPECT_THAT(found["command"].get<std::string>(), HasSubstr(flag));
  }
  ASSERT_EQ(folder
                .run("profile --model mlp:hidden=32/32 --data digits --batch-size 8,16 "
                     "--samples 20 --save p.json")
                .code,
            0);
  const json measured = folder.json(
      "search --profile p.json --batch-size 16 --ranks 2 --microbatches 2 --schedule 1f1b "
      "--threads 1")["found"][0];
  EXPECT_THAT(measured["command"].get<std::string>(), HasSubstr("--threads 1"));
  EXPECT_EQ(period_of(folder.json(measured["command"].get<std::string>().substr(8))),
            measured["batch_period_ms"].get<double>());
}

}  // namespace
}  // namespace unlatch::test
