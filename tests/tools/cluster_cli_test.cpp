// --cluster: a model's costs from operations, bytes and links.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/tools/cluster_support.h"
#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
constexpr double batch = 16;
/// Nanoseconds of 64 -> 64 and 64 -> 10 with biases on 1 TFLOP/s, forward and backward.
constexpr double first_forward = batch * (2 * 64 * 64 + 64) / 1e3;
constexpr double relu = batch * 64 / 1e3;
constexpr double last_forward = batch * (2 * 64 * 10 + 10) / 1e3;
/// Half of the whole backward: nobody wants the gradient of the data.
constexpr double first_backward = batch * (4 * 64 * 64 + 64) / 2 / 1e3;
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

// 512 MiB: 65536 outputs of 2048 samples in fp32.
TEST(O23, BytesAndBitsDecimalAndBinaryThroughTheProgram) {
  const Folder folder;
  const std::string flags =
      "simulate --cluster pair.json --model mlp:hidden=65536 --data digits --batch-size 2048 "
      "--schedule bp --stages 2 --partition 2/1 --batches 1 ";
  json cluster = two_devices();
  cluster["device_types"]["X"]["memory"] = "64GiB";
  json& link = cluster["node"]["links"][0];
  link["latency"] = "0";
  const auto with_rate = [&](const json& rate) {
    link["bandwidth"] = rate;
    folder.write("pair.json", cluster.dump());
    return folder.run(flags + "--json");
  };
  struct Case {
    const char* rate;
    double ms, bytes_per_second;
    const char* text;
  };
  for (const Case& c :
       {Case{"25 GB/s", 21.475, 25e9, "25 GB/s (25000000000 bytes a second)"},
        Case{"25 Gb/s", 171.799, 3.125e9, "3.125 GB/s (3125000000 bytes a second)"},
        Case{"25 GiB/s", 20.000, 26843545600, "26.8435 GB/s (26843545600 bytes a second)"}}) {
    SCOPED_TRACE(c.rate);
    const json run = json::parse(with_rate(c.rate).out);
    int messages = 0;
    for (const json& task : run["critical_path"]) {
      if (task["task"] != "0SEND_F0") continue;
      EXPECT_NEAR(task["end_ms"].get<double>() - task["start_ms"].get<double>(), c.ms, 5e-4);
      ++messages;
    }
    EXPECT_EQ(messages, 1);
    ASSERT_EQ(run["placement"]["links"].size(), 1U);
    EXPECT_EQ(run["placement"]["links"][0]["bytes_per_second"], c.bytes_per_second);
    EXPECT_EQ(run["placement"]["links"][0]["latency_ms"], 0);
    EXPECT_THAT(folder.run(flags).out, HasSubstr(fmt::format("device0 to device1: {}", c.text)));
  }
  for (const json& wrong : {json("25"), json("25 gbs"), json(25)}) {
    const Outcome outcome = with_rate(wrong);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("pair.json, node.links[0].bandwidth"), HasSubstr("25"),
                                   HasSubstr("GB/s"), HasSubstr("Gb/s"), HasSubstr("GiB/s")));
  }
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

/// Two nodes of two devices and one of two slower ones.
constexpr const char* three_nodes =
    R"({"name": "h", "device_types": {"P": {"tflops": {"fp32": 10, "bf16": 50}, "memory":
  "24GB", "memory_bandwidth": "300GB/s"}, "Q": {"tflops": {"fp32": 5, "bf16": 20},
  "memory": "12GB", "memory_bandwidth": "200GB/s"}}, "node": [{"count": 2, "devices":
  {"type": "P", "count": 2}, "switches": ["s"], "links": [{"from": "device", "to": "s",
  "bandwidth": "10GB/s", "latency": "5us"}]}, {"count": 1, "devices": [{"type": "Q",
  "count": 2}], "switches": ["s"], "links": [{"from": "device", "to": "s", "bandwidth":
  "5GB/s", "latency": "5us"}]}], "network": {"switches": ["f"], "links": [{"from":
  "node.s", "to": "f", "bandwidth": "1GB/s", "latency": "20us"}]}})";

// The last batches meet none that come later on the links, the others repeat: three more batches
// add three periods.
TEST(ClusterCli, FindsARepetitionOnSharedLinksBeforeTheDrain) {
  const Folder folder;
  folder.write("c.json", three_nodes);
  const auto run = [&](int batches) {
    return folder.json(fmt::format(
        "simulate --cluster c.json --model resnet20 --batch-size 64 --schedule 1f1b --stages 3 "
        "--microbatches 4 --replicas 2 --partition 3/2/18 --contention fair "
        "--placement 0,1,2,3,4,5 --batches {}",
        batches));
  };
  const json longer = run(303);
  EXPECT_TRUE(longer["steady_state"]["exact"]);
  EXPECT_NEAR(longer["steady_state"]["batch_period_ms"].get<double>(),
              (longer["makespan_ms"].get<double>() - run(300)["makespan_ms"].get<double>()) / 3,
              1e-6);
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

TEST(ClusterCli, RunsEveryScheduleOfTheCatalogueOnItsRanks) {
  const Folder folder;
  const json catalogue = folder.json("schedules");
  ASSERT_GT(catalogue["schedules"].size(), 20U);
  for (const json& method : catalogue["schedules"]) {
    const auto name = method["name"].get<std::string>();
    for (const char* contention : {"none", "fair"}) {
      SCOPED_TRACE(fmt::format("{}, {}", name, contention));
      const json run = folder.json(fmt::format(
          "simulate --schedule {} --ranks 4 --microbatches 8 --batches 3 --cluster 4xP40 --model "
          "resnet20 --batch-size 64 --slow 3:2 --contention {}",
          name, contention));
      EXPECT_EQ(run["placement"]["devices"], json({0, 1, 2, 3}));
      EXPECT_GT(run["steady_state"]["speedup_over_bp"], 0.9);
    }
  }
}

// It has 6005 layers: what a partition costs may not grow with their third power.
TEST(ClusterCli, CutsTheDeepestResNet) {
  const Folder folder;
  const json run = folder.json(
      "simulate --schedule 1f1b --stages 4 --microbatches 4 --cluster 4xP40 --model resnet6002 "
      "--batch-size 4");
  const std::vector<int> layers = run["partition"];
  EXPECT_EQ(layers.size(), 4U);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 6005);
}

// BP sits on the same ranks, of two stages each, and is as slow as they are.
TEST(ClusterCli, ComparesWithBpOnTheSameRanks) {
  const Folder folder;
  const auto speedup = [&](const std::string& slow) {
    const json run = folder.json(
        "simulate --schedule interleaved-1f1b --ranks 2 --microbatches 2 --cluster 4xP40 --model "
        "resnet20 --batch-size 4096 " +
        slow);
    return run["steady_state"]["speedup_over_bp"].get<double>();
  };
  // Messages, which stay as fast, are a part of the time. With BP elsewhere it would be a
  // hundredth.
  EXPECT_NEAR(speedup("--slow 0:100 --slow 1:100"), speedup(""), 0.2);
}

TEST(ClusterCli, SendsEachReplicasMessagesOverItsOwnLinks) {
  const Folder folder;
  json file = two_devices();
  file["node"] = {{"devices", {{"type", "X"}, {"count", 4}}},
                  {"links",
                   {link("device0", "device1", "1GB/s"), link("device1", "device2", "1GB/s"),
                    link("device2", "device3", "1MB/s")}}};
  folder.write("pair.json", file.dump());
  for (const char* contention : {"none", "fair"}) {
    SCOPED_TRACE(contention);
    folder.json(on_pair + fmt::format("--schedule ssgd --replicas 2 --stages 2 --partition 2/1 "
                                      "--batches 1 --tasks t.csv --contention {}",
                                      contention));
    const double bytes = batch / 2 * 64 * 4;
    EXPECT_NEAR(folder.length_ms("t.csv", "0SEND_F0"), 0.003 + bytes / 1e6, 1e-6);
    // A byte takes 1 us. The sum of stage 1 over the same cable waits for two messages of 6 us,
    // then both have half of it: 9 bytes alone, 2600 against the other 2039.
    const bool shared = contention == std::string("fair");
    const double back = shared ? 0.012 + 2 * (bytes - 9) / 1e3 : 0.003 + bytes / 1e3;
    EXPECT_NEAR(folder.length_ms("t.csv", "3SEND_B1"), back, 1e-6);
  }
}

/// A device of 1 TFLOP/s and one of 4, of another memory.
json slow_and_fast() {
  json file = two_devices();
  file["device_types"]["Y"] = {
      {"tflops", {{"fp32", 4}}}, {"memory", "2GiB"}, {"memory_bandwidth", "900000GB/s"}};
  file["node"]["devices"] = {{{"type", "X"}, {"count", 1}}, {{"type", "Y"}, {"count", 1}}};
  return file;
}

TEST(ClusterCli, TimesEveryStageOnTheDeviceOfItsRank) {
  const Folder folder;
  json file = slow_and_fast();
  const std::string run = on_pair + "--schedule bp --stages 2 --partition 2/1 --batches 1 ";
  for (const bool swapped : {false, true}) {
    SCOPED_TRACE(swapped);
    if (swapped) file["placement"] = {1, 0};
    folder.write("pair.json", file.dump());
    const json result = folder.json(run + "--tasks t.csv");
    const double first = swapped ? 4 : 1, last = swapped ? 1 : 4;
    constexpr double ns = 1e-6;
    EXPECT_NEAR(folder.length_ms("t.csv", "0F0"), (first_forward + relu) / first * ns, ns);
    EXPECT_NEAR(folder.length_ms("t.csv", "0B0"), (first_backward + relu) / first * ns, ns);
    EXPECT_NEAR(folder.length_ms("t.csv", "1F0"), last_forward / last * ns, ns);
    EXPECT_NEAR(folder.length_ms("t.csv", "1B0"), last_backward / last * ns, ns);
    EXPECT_EQ(result["placement"]["device_types"], swapped ? json({"Y", "X"}) : json({"X", "Y"}));
  }
}

// Eight equal layers in front of a small one: four times the speed takes four times the layers.
TEST(ClusterCli, GivesAFasterDeviceMoreLayers) {
  const Folder folder;
  folder.write("pair.json", slow_and_fast().dump());
  const json run = folder.json(
      "simulate --cluster pair.json --data digits --batch-size 512 --schedule 1f1b --stages 2 "
      "--model mlp:hidden=64/64/64/64/64/64/64/64/64/64");
  // 21 layers; the linear ones, 0, 2, 4 .., cost all but nothing else, the first a third less.
  const int of_the_slow = run["partition"][0];
  EXPECT_GE(of_the_slow, 3);
  EXPECT_LE(of_the_slow, 5);
}

TEST(ClusterCli, HoldsEveryRankToTheMemoryOfItsOwnDevice) {
  const Folder folder;
  json file = slow_and_fast();
  file["device_types"]["X"]["memory"] = "1MiB";
  const std::string run =
      "simulate --schedule gpipe --stages 2 --model mlp:hidden=2000 --data digits --batch-size 800 "
      "--cluster pair.json ";
  folder.write("pair.json", file.dump());
  const Outcome first = folder.run(run);
  expect_refused(first);
  EXPECT_THAT(first.err, AllOf(HasSubstr("rank 0 needs"), HasSubstr("the limit is 1 MiB")));
  file["placement"] = {1, 0};
  folder.write("pair.json", file.dump());
  const Outcome second = folder.run(run);
  expect_refused(second);
  EXPECT_THAT(second.err, HasSubstr("rank 1 needs"));
}

// Replicas on devices of two speeds: the batch ends with the slow one.
TEST(ClusterCli, LetsReplicasHaveDevicesOfTheirOwn) {
  const Folder folder;
  folder.write("pair.json", slow_and_fast().dump());
  folder.json(on_pair + "--schedule ssgd --replicas 2 --stages 1 --batches 1 --tasks t.csv");
  const double forward = (first_forward + relu + last_forward) / 2 * 1e-6;
  EXPECT_NEAR(folder.length_ms("t.csv", "0F0"), forward, 3e-6);
  EXPECT_NEAR(folder.length_ms("t.csv", "1F1"), forward / 4, 3e-6);
}

TEST(ClusterCli, ChargesNoGradientOfTheData) {
  const Folder folder;
  folder.write("pair.json", two_devices().dump());
  folder.json(on_pair + "--schedule zb-h1 --stages 2 --partition 1/2 --tasks t.csv");
  EXPECT_EQ(folder.length_ms("t.csv", "0I0"), 0);
  EXPECT_NEAR(folder.length_ms("t.csv", "0W0"), first_backward * 1e-6, 1e-6);
}

/// One block of 2 h^2 (4 + 8) + 4 s h a token and nothing else that takes time.
TEST(ClusterCli, SimulatesShapesOfTransformers) {
  const Folder folder;
  json file = two_devices();
  file["device_types"]["X"]["tflops"]["bf16"] = 1;
  file["device_types"]["X"]["memory_bandwidth"] = "100000000GB/s";
  folder.write("pair.json", file.dump());
  folder.write("s.json",
               R"({"name": "s", "layers": 4, "width": 64, "heads": 4, "sequence": 128,
                   "vocabulary": 1000})");
  const json run = folder.json(
      "simulate --cluster pair.json --model s.json:sequence=32 --batch-size 6 --microbatches 3 "
      "--schedule zb-h1 --stages 2 --partition 3/4 --precision bf16 --tasks t.csv");
  const double tokens = 2 * 32;
  const double blocks = 2 * tokens * (24 * 64 * 64 + 4 * 32 * 64) / 1e9;  // ms at 1 TFLOP/s
  const double head = 2 * tokens * 64 * 1000 / 1e9;
  EXPECT_NEAR(folder.length_ms("t.csv", "0F0"), blocks, 1e-5);
  EXPECT_NEAR(folder.length_ms("t.csv", "1F0"), blocks + head, 1e-5);
  EXPECT_NEAR(folder.length_ms("t.csv", "1W0"), 2 * tokens * 24 * 64 * 64 / 1e9 + head, 1e-5);
  EXPECT_NEAR(folder.length_ms("t.csv", "0SEND_F0"), 0.003 + tokens * 64 * 2 / 1e6, 1e-6);
  EXPECT_EQ(run["partition"], json({3, 4}));
  // The last rank keeps a copy of the embedding, which is its head.
  const double block = 12 * 64 * 64 + 13 * 64;
  const auto weights = [](double parameters) { return 2 * 4 * parameters; };
  const double tape = 2 * tokens * 64 * (34 + 5 * 4 * 32.0 / 64) + tokens * (4 * 64 + 4 * 1000);
  const double kept_for_w = 2 * tokens * 32 * 64 + tokens * 2 * (64 + 1000);
  EXPECT_EQ(run["ranks_detail"][1]["peak_memory_bytes"],
            weights(2 * block + 2 * 64 + 64 * 1000) + tape + kept_for_w);
}

TEST(ClusterCli, RefusesToTrainAShape) {
  const Folder folder;
  for (const char* command :
       {"train --schedule bp", "profile", "eval --weights w.safetensors --data digits"}) {
    const Outcome outcome = folder.run(fmt::format("{} --model gpt2", command));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("model gpt2: a shape for simulation only")) << command;
  }
  const std::string simulate =
      "simulate --schedule bp --cluster 8xA100 --batch-size 8 --stages 2 --model ";
  const Outcome unknown = folder.run(simulate + "gpt");
  expect_refused(unknown);
  EXPECT_THAT(unknown.err, HasSubstr("Did you mean 'gpt2'"));
  const Outcome missing = folder.run(simulate + "none.json");
  expect_refused(missing);
  EXPECT_THAT(missing.err, HasSubstr("cannot read 'none.json'"));
  const Outcome endless = folder.run(simulate + "llama2-70b:sequence=16777216 --memory-limit 1GB");
  expect_refused(endless);
  EXPECT_THAT(endless.err, HasSubstr("more than 8 PiB; check the model"));
}

TEST(ClusterCli, PredictsTheMemoryThatTrainPredicts) {
  const Folder folder;
  for (const char* schedule : {"1f1b", "zb-h1", "dsp"}) {
    SCOPED_TRACE(schedule);
    const std::string run = fmt::format(
        "--schedule {} --stages 3 --microbatches 2 --batch-size 8 --model resnet8:width=4 --data "
        "synthetic:3x32x32,samples=100 --partition uniform --optimizer momentum",
        schedule);
    const json simulated = folder.json("simulate --cluster 4xP40 --batches 6 " + run);
    const json trained = folder.json("train --steps 6 " + run);
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(simulated["ranks_detail"][r]["peak_memory_bytes"],
                trained["measured"]["memory_detail"][r]["predicted_peak_bytes"])
          << "rank " << r;
    }
  }
}

TEST(ClusterCli, KnowsTheMemoryOfItsDevices) {
  const Folder folder;
  json small = two_devices();
  small["device_types"]["X"]["memory"] = "1MiB";
  folder.write("pair.json", small.dump());
  const std::string big =
      "--stages 2 --model mlp:hidden=2000 --data digits --batch-size 800 "
      "--cluster pair.json ";
  const Outcome outcome = folder.run("simulate --schedule gpipe " + big);
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("the limit is 1 MiB"));
  EXPECT_EQ(folder.run("simulate --schedule gpipe --memory-limit 1GiB " + big).code, 0);
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
  refused(bp + "--stages 2 --all-reduce 2",
          AllOf(HasSubstr("--all-reduce '2'"), HasSubstr("ring"), HasSubstr("tree")));
  refused("simulate --schedule bp --stages 2 --all-reduce tree", HasSubstr("--all-reduce 'tree'"));
  json slow = two_devices();
  slow["node"]["links"][0]["bandwidth"] = "1B/s";
  folder.write("pair.json", slow.dump());
  refused(
      "simulate --schedule bp --stages 2 --cluster pair.json --model mlp --batch-size 2000000000",
      HasSubstr("would last longer than 126 years"));
  slow["device_types"]["X"]["launch"] = "1000000s";
  folder.write("pair.json", slow.dump());
  refused(bp + "--stages 2 --batches 10000", HasSubstr("may last longer than 292 years"));
  json damaged = two_devices();
  damaged["node"]["links"][0]["bandwidth"] = "1";
  folder.write("pair.json", damaged.dump());
  refused(bp + "--stages 2", HasSubstr("pair.json, node.links[0].bandwidth"));
}

}  // namespace
}  // namespace unlatch::test
