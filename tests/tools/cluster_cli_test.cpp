// --cluster: a model's costs from operations, bytes and links.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// Two devices of 1 TFLOP/s and no launch, memory far faster than that, joined by one cable.
json two_devices() {
  return {{"name", "pair"},
          {"device_types",
           {{"X",
             {{"tflops", {{"fp32", 1}}}, {"memory", "1GiB"}, {"memory_bandwidth", "900000GB/s"}}}}},
          {"node",
           {{"devices", {{"type", "X"}, {"count", 2}}},
            {"links",
             {{{"from", "device0"},
               {"to", "device1"},
               {"bandwidth", "1GB/s"},
               {"latency", "3us"},
               {"duplex", "half"}}}}}}};
}

const std::string on_pair =
    "simulate --cluster pair.json --model mlp:hidden=64 --data digits --batch-size 16 ";

constexpr double batch = 16;
/// Nanoseconds of 64 -> 64 and 64 -> 10 with biases on 1 TFLOP/s, forward and backward.
constexpr double first_forward = batch * (2 * 64 * 64 + 64) / 1e3;
constexpr double relu = batch * 64 / 1e3;
constexpr double last_forward = batch * (2 * 64 * 10 + 10) / 1e3;
constexpr double first_backward = batch * (4 * 64 * 64 + 64) / 1e3;
constexpr double last_backward = batch * (4 * 64 * 10 + 10) / 1e3;
/// SGD: four operations a parameter, as the roofline counts them.
constexpr double updates = 4 * (64 * 64 + 64 + 64 * 10 + 10) / 1e3;

TEST(ClusterCli, ComputesLayersFromTheirOperations) {
  const Folder folder;
  folder.write("pair.json", two_devices().dump());
  const json run = folder.json(on_pair + "--schedule bp --stages 1 --batches 1");
  const double ns =
      first_forward + relu + last_forward + first_backward + relu + last_backward + updates;
  EXPECT_NEAR(run["makespan_ms"].get<double>() * 1e6, ns, 8);  // each task to the nanosecond
}

TEST(ClusterCli, SendsWhatStagesHandOnOverTheirLink) {
  const Folder folder;
  folder.write("pair.json", two_devices().dump());
  const json run =
      folder.json(on_pair + "--schedule bp --stages 2 --partition 2/1 --batches 1 --tasks t.csv");
  const double message = 3000 + batch * 64 * 4;  // latency, then a byte a nanosecond
  const double ns = first_forward + relu + message + last_forward + last_backward + message +
                    first_backward + relu + 4 * (64 * 64 + 64) / 1e3;
  EXPECT_NEAR(run["makespan_ms"].get<double>() * 1e6, ns, 8);
  EXPECT_EQ(run["transfers"]["count"], 2);
  const json shared = folder.json(on_pair +
                                  "--schedule bp --stages 2 --partition 2/1 --batches 1 "
                                  "--contention fair");
  EXPECT_NEAR(shared["makespan_ms"].get<double>() * 1e6, ns, 8) << "nobody to share with";
}

// gpipe's messages of both directions meet on the one cable only where they share it.
TEST(ClusterCli, LetsTransfersShareALink) {
  const Folder folder;
  folder.write("pair.json", two_devices().dump());
  const std::string pipeline = on_pair + "--schedule 1f1b --stages 2 --microbatches 8 --batches 4 ";
  const double apart = folder.json(pipeline)["makespan_ms"];
  const double together = folder.json(pipeline + "--contention fair")["makespan_ms"];
  EXPECT_GT(together, apart);
  EXPECT_LT(together, 2 * apart);
}

TEST(ClusterCli, ComparesSchedulesOnEveryShippedCluster) {
  const Folder folder;
  for (const char* cluster : {"4xP40", "4xK80", "8xV100", "8xA100", "8xH100", "128x8xH100"}) {
    SCOPED_TRACE(cluster);
    const json run =
        folder.json(fmt::format("compare --schedule bp --schedule 1f1b --schedule fdg --cluster {} "
                                "--model resnet20 --batch-size 128 --microbatches 4 --stages 4",
                                cluster));
    ASSERT_EQ(run["schedules"].size(), 3U);
    EXPECT_EQ(run["schedules"][0]["schedule"], "fdg");
    EXPECT_EQ(run["schedules"][2]["schedule"], "bp");
  }
}

TEST(ClusterCli, SumsReplicasUpOverTheirLinks) {
  const Folder folder;
  const std::string pipeline =
      "simulate --schedule ssgd --stages 2 --cluster 8xA100 --model resnet20 --batch-size 256 "
      "--json";
  const json one = json::parse(folder.run(pipeline + " --replicas 1 --batches 8").out);
  const json two = json::parse(folder.run(pipeline + " --replicas 2 --batches 8").out);
  EXPECT_LT(two["makespan_ms"], one["makespan_ms"]);
  EXPECT_GT(two["makespan_ms"], one["makespan_ms"].get<double>() / 2);
}

// O16: the same stages on different nodes. Borders within a node are so fast that only crossings
// count.
TEST(ClusterCli, CountsTheNodeBordersThatStagesCross) {
  const Folder folder;
  json file = two_devices();
  file["node"] = {
      {"devices", {{"type", "X"}, {"count", 4}}},
      {"switches", {"root"}},
      {"links",
       {{{"from", "device"}, {"to", "root"}, {"bandwidth", "100000GB/s"}, {"latency", "0us"}}}}};
  file["nodes"] = 2;
  file["network"] = {{"switches", {"fabric"}},
                     {"links",
                      {{{"from", "node.root"},
                        {"to", "fabric"},
                        {"bandwidth", "100000GB/s"},
                        {"latency", "1ms"}}}}};
  struct Case {
    std::vector<int> placement;
    std::vector<std::pair<int, int>> borders;
  };
  std::vector<double> makespans;
  for (const Case& c :
       {Case{{0, 1, 2, 3, 4, 5, 6, 7}, {{3, 4}}},
        {{0, 1, 4, 5, 2, 3, 6, 7}, {{1, 2}, {3, 4}, {5, 6}}},
        {{0, 4, 1, 5, 2, 6, 3, 7}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}}}}) {
    file["placement"] = c.placement;
    folder.write("c.json", file.dump());
    const std::string simulate =
        "simulate --schedule 1f1b --stages 8 --microbatches 8 --cluster c.json --batch-size 16 "
        "--model mlp:hidden=9/9/9/9/9/9/9 --data digits";
    const json run = folder.json(simulate);
    EXPECT_EQ(run["placement"]["node_borders_crossed"], c.borders.size());
    EXPECT_EQ(run["placement"]["crossing_stages"], json(c.borders));
    EXPECT_THAT(folder.run(simulate).out,
                HasSubstr(fmt::format("{} node border", c.borders.size())));
    makespans.push_back(run["makespan_ms"]);
  }
  // Tasks of microseconds, crossings of 2 ms: a crossing once each way for each of the messages
  // that the flush waits for.
  EXPECT_LT(makespans[0], makespans[1]);
  EXPECT_LT(makespans[1], makespans[2]);
}

TEST(ClusterCli, RefusesWhatDoesNotGoTogether) {
  const Folder folder;
  folder.write("pair.json", two_devices().dump());
  const auto refused = [&](const std::string& arguments, const auto& message) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = folder.run(arguments);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, message);
  };
  const std::string bp = on_pair + "--schedule bp ";
  refused(bp + "--stages 3", HasSubstr("3 ranks, but the cluster pair has places for 2"));
  refused(bp + "--stages 2 --precision bf16",
          HasSubstr("device X has no peak for bf16; it has fp32"));
  refused(bp + "--stages 2 --forward 2", HasSubstr("--forward contradicts --cluster"));
  refused(bp + "--stages 2 --profile p.json", HasSubstr("leave one of them out"));
  refused("simulate --schedule bp --stages 2 --cluster pair.json --batch-size 4",
          HasSubstr("--model NAME is needed"));
  refused("simulate --schedule bp --stages 2 --cluster pair.json --model mlp",
          HasSubstr("--cluster needs --batch-size B"));
  refused("simulate --schedule bp --stages 2 --contention fair",
          HasSubstr("--contention is for --cluster FILE"));
  refused("simulate --schedule bp --stages 2 --cluster 4xP4 --model mlp --batch-size 4",
          AllOf(HasSubstr("'4xP4'"), HasSubstr("4xP40")));
  json damaged = two_devices();
  damaged["node"]["links"][0]["bandwidth"] = "1";
  folder.write("pair.json", damaged.dump());
  refused(bp + "--stages 2", HasSubstr("pair.json, node.links[0].bandwidth"));
}

}  // namespace
}  // namespace unlatch::test
