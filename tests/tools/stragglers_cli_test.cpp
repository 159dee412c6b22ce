// Slow ranks and links, pauses and noise on the command line; what they cost each schedule.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string bp = "simulate --schedule bp --stages 2 ";

// F 0..1, message 1..4, F and B 4..7, message back 7..10, B 10..12.
TEST(SlowLinks, SlowMessagesBothWays) {
  const Folder folder;
  const json run = folder.json(bp + "--transfer 1 --slow-link 0-1:3");
  EXPECT_EQ(run["makespan_ms"], 12.0);
  EXPECT_EQ(run["undisturbed_makespan_ms"], 8.0);
  EXPECT_EQ(run["slow_down"], 1.5);
  EXPECT_EQ(run["steady_state"]["batch_period_ms"], 12.0);
  EXPECT_EQ(run["steady_state"]["speedup_over_bp"], 1.0);  // BP has the same links
}

TEST(SlowLinks, AreNotIgnoredInSilence) {
  const Folder folder;
  const Outcome free = folder.run(bp + "--slow-link 0-1:3");
  EXPECT_EQ(free.code, 0);
  EXPECT_THAT(free.err, AllOf(HasSubstr("--slow-link 0-1"), HasSubstr("slows nothing")));
  const Outcome noise = folder.run(bp + "--straggler random:on=links");
  EXPECT_THAT(noise.err, HasSubstr("on=links slows nothing"));
  EXPECT_THAT(folder.run(bp + "--transfer 1 --slow-link 0-1:3").err, IsEmpty());
}

// GPipe on two ranks ends at 9; 0F1 runs from 1 to 2 and all others wait for it.
TEST(Pauses, DelayWhatWaitsForTheTaskTheyMeet) {
  const Folder folder;
  const std::string gpipe = "simulate --schedule gpipe --stages 2 --microbatches 2 ";
  const json run = folder.json(gpipe + "--pause 0:1.5ms:5ms");
  EXPECT_EQ(run["makespan_ms"], 14.0);
  EXPECT_EQ(run["ranks_detail"][0]["busy_ms"], 11.0);
  EXPECT_EQ(run["steady_state"]["batch_period_ms"], 9.0);  // a pause that comes once is no state
  EXPECT_EQ(folder.json(gpipe + "--pause 0:2:3 --pause 1:9:1")["makespan_ms"], 9.0);
}

TEST(Pauses, AtRandomMakeARandomRun) {
  const Folder folder;
  const json run = folder.json(bp + "--straggler pause:every=20,time=2 --runs 200 --seed 4");
  EXPECT_EQ(run["distribution"]["runs"], 200);
  EXPECT_GE(run["distribution"]["p50_ms"], 6.0);
  EXPECT_GT(run["distribution"]["p99_ms"], run["distribution"]["p50_ms"]);
}

// With one node for all ranks a step of BP is one factor: 12 x exp(sigma^2 / 2) on average, where
// ranks alone would not spread so far.
TEST(NodeNoise, IsSharedByTheRanksOfANode) {
  const Folder folder;
  const auto spread = [&](const std::string& node) {
    const json run = folder.json("simulate --schedule bp --straggler lognormal:sigma=0.3" + node +
                                 " --runs 2000");
    EXPECT_NEAR(run["distribution"]["mean_ms"].get<double>(), 12 * std::exp(0.045), 0.35) << node;
    return run["distribution"]["p95_ms"].get<double>() - 12;
  };
  EXPECT_GT(spread(",node=4"), 1.5 * spread(""));
}

/// Two nodes of two devices each.
json two_nodes() {
  const auto link = [](const char* from, const char* to) {
    return json{{"from", from}, {"to", to}, {"bandwidth", "1GB/s"}, {"latency", "3us"}};
  };
  return {
      {"name", "two"},
      {"device_types",
       {{"X", {{"tflops", {{"fp32", 1}}}, {"memory", "1GiB"}, {"memory_bandwidth", "900GB/s"}}}}},
      {"node",
       {{"devices", {{"type", "X"}, {"count", 2}}},
        {"switches", {"root"}},
        {"links", json::array({link("device", "root")})}}},
      {"nodes", 2},
      {"network", {{"switches", {"core"}}, {"links", json::array({link("node.root", "core")})}}}};
}

TEST(NodeNoise, TakesTheNodesOfTheCluster) {
  const Folder folder;
  folder.write("two.json", two_nodes().dump());
  const std::string run =
      "simulate --cluster two.json --model mlp:hidden=64/64/64 --data digits --batch-size 16 "
      "--schedule bp --stages 4 --runs 30 --straggler lognormal:sigma=0.4,";
  EXPECT_EQ(folder.json(run + "on=nodes")["distribution"],
            folder.json(run + "node=2")["distribution"]);
  EXPECT_NE(folder.json(run + "on=nodes")["distribution"],
            folder.json(run + "on=ranks")["distribution"]);
  const Outcome shared = folder.run(run + "on=links --contention fair");
  expect_refused(shared);
  EXPECT_THAT(shared.err, HasSubstr("--contention fair"));
}

TEST(Compare, ShowsWhatADisturbanceCosts) {
  const Folder folder;
  const std::string run = "compare --schedule 1f1b --schedule gpipe --microbatches 8 ";
  const json slow = folder.json(run + "--slow 2:1.5");
  EXPECT_EQ(slow["schedules"][0]["undisturbed_makespan_ms"], 33.0);  // O21, in units of 1 ms
  EXPECT_EQ(slow["schedules"][0]["slow_down"], 43.5 / 33);
  EXPECT_THAT(folder.run(run).out, Not(HasSubstr("slow-down")));
  EXPECT_THAT(folder.run(run + "--straggler random --runs 20").out,
              AllOf(HasSubstr("slow-down"), HasSubstr("mean ms"), HasSubstr("p50 ms"),
                    HasSubstr("p95 ms"), HasSubstr("p99 ms")));
}

// O21: 33 undisturbed; rank 2 slower by 1.5 and by 2.
TEST(Stragglers, CostWhatACaseSays) {
  const Folder folder;
  for (const auto& [factor, one_f_one_b, gpipe] :
       {std::tuple{"1.5", 43.5, 45.0}, {"2", 55.0, 57.0}}) {
    const json table = folder.json(fmt::format(
        "stragglers --schedule 1f1b --schedule gpipe --microbatches 8 --slow 2:{}", factor));
    for (const auto& [place, makespan] : {std::pair{0, one_f_one_b}, {1, gpipe}}) {
      const json& row = table["schedules"][place];
      EXPECT_EQ(row["undisturbed_makespan_ms"], 33.0);
      ASSERT_EQ(row["stragglers"].size(), 1U);
      EXPECT_EQ(row["stragglers"][0]["straggler"], fmt::format("slow 2:{}", factor));
      EXPECT_EQ(row["stragglers"][0]["makespan_ms"], makespan);
      EXPECT_EQ(row["stragglers"][0]["slow_down"], makespan / 33);
    }
  }
}

// BP takes 12 on four ranks: a rank slower by 1.5 adds 1.5, all ranks by 1.5 in a third of their
// steps 2 on average (deviation 0.35 of 1000 runs: 4 of them are 0.045).
TEST(Stragglers, HaveUsualOnes) {
  const Folder folder;
  const json row = folder.json("stragglers --schedule bp")["schedules"][0];
  std::vector<std::string> names;
  for (const json& one : row["stragglers"]) names.push_back(one["straggler"]);
  EXPECT_THAT(names, testing::ElementsAre("first rank x1.5", "middle x1.5", "last x1.5",
                                          "random x1.5", "pauses"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(row["stragglers"][i]["slow_down"], 13.5 / 12);
  const json& random = row["stragglers"][3];
  EXPECT_EQ(random["distribution"]["runs"], 1000);
  EXPECT_NEAR(random["distribution"]["mean_ms"].get<double>(), 14, 0.18);
  EXPECT_EQ(random["p95_slow_down"], random["distribution"]["p95_ms"].get<double>() / 12);
  const json& pauses = row["stragglers"][4]["distribution"];
  EXPECT_EQ(pauses["p50_ms"].get<double>() >= 12, true);
  EXPECT_GT(pauses["p99_ms"], pauses["p50_ms"]);
}

TEST(Stragglers, AreTakenAloneAndTogether) {
  const Folder folder;
  const json row = folder.json(
      "stragglers --schedule bp --stages 2 --transfer 1 --slow 1:2 --slow-link 0-1:3 --pause "
      "0:0.5:4 --straggler random:probability=1,factor=3")["schedules"][0];
  std::vector<double> makespans;
  for (const json& one : row["stragglers"]) {
    makespans.push_back(one.contains("makespan_ms") ? one["makespan_ms"]
                                                    : one["distribution"]["mean_ms"]);
  }
  // Together: F 3 + 4 of pause, message 3, F 6, B 12, message 3, B 6.
  EXPECT_THAT(makespans, testing::ElementsAre(11, 12, 12, 20, 37));
}

TEST(Stragglers, GiveTheSameTableForTheSameSeedOnAnyNumberOfCores) {
  const Folder folder;
  const std::string run =
      "stragglers --schedule 1f1b --schedule dsp --batches 4 --runs 50 --json --seed ";
  const Outcome all = folder.run(run + "3");
  EXPECT_EQ(all.out, folder.run(run + "3", "taskset -c 0").out);
  EXPECT_NE(all.out, folder.run(run + "4").out);
}

TEST(Stragglers, PrintATable) {
  const Folder folder;
  const Outcome outcome = folder.run("stragglers --schedule 1f1b --schedule bp --runs 9");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("undisturbed ms"), HasSubstr("middle x1.5"),
                                 HasSubstr("p95"), HasSubstr("of 9 random runs"),
                                 HasSubstr("stands still for 0.6 ms after running "
                                           "for 30 ms on average")));
}

TEST(Stragglers, RefuseRunsThatWouldBeTheSame) {
  const Folder folder;
  const Outcome outcome = folder.run("stragglers --schedule bp --slow 1:2 --runs 5");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("--runs 5 without --straggler"));
}

// BP on two stages: F 1 and B 2 each, messages of 0.5: all of it one after the other, 7.
TEST(Sensitivity, OfBackPropagationIsATenthOfEachPart) {
  const Folder folder;
  const json run = folder.json(bp + "--transfer 0.5 --sensitivity");
  const json& parts = run["sensitivity"]["parts"];
  EXPECT_EQ(run["sensitivity"]["faster"], 0.1);
  ASSERT_EQ(parts.size(), 6U);
  double shares = 0;
  for (const json& part : parts) {
    const auto kind = part["kind"].get<std::string>();
    const double ms = kind == "B" ? 2 : kind == "F" ? 1 : 0.5;
    EXPECT_EQ(part["on_critical_path_ms"], ms);
    EXPECT_NEAR(part["gain_ms"].get<double>(), ms / 10, 1e-9);
    EXPECT_EQ(part["predicted_gain_ms"], part["gain_ms"]);
    EXPECT_EQ(part["path_moves_to"], nullptr);
    shares += part["share_of_makespan"].get<double>();
  }
  EXPECT_NEAR(shares, 1, 1e-12);
  EXPECT_FALSE(folder.json(bp).contains("sensitivity"));
  EXPECT_THAT(folder.run(bp + "--transfer 0.5 --sensitivity").out,
              AllOf(HasSubstr("link 0 to 1"), HasSubstr("0SEND_F")));
}

// A machine has fewer cores than a pipeline of 64 has ranks.
TEST(Stragglers, LeavesPausesOutWhereRanksShareWorkers) {
  const Folder folder;
  folder.json(
      "profile --model mlp:hidden=16 --data digits --batch-size 8 --samples 2 --save p.json");
  const json run = folder.json(
      "stragglers --profile p.json --batch-size 8 --schedule fdg --stages 3 --threads 2 --runs 3 "
      "--batches 4");
  EXPECT_EQ(run["schedules"][0]["stragglers"].size(), 4U);
}

}  // namespace
}  // namespace unlatch::test
