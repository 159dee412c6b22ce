// unlatch simulate and show: figures, memory limits, files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The example of the contract, to the letter where it is not "form only".
TEST(Simulate, PrintsTheContractsExample) {
  const Folder folder;
  const json run = folder.json("simulate --schedule dsp --stages 3");
  const json head = json::parse(R"({"form":"queue","staleness":[4,2,0],"queues":[1,1,0]})");
  EXPECT_EQ(run["schedule"], "dsp");
  EXPECT_EQ(run["parameters"], head);
  EXPECT_EQ(run["batches"], 64);
  EXPECT_EQ(run["makespan_ms"], 198.0);
  EXPECT_NEAR(run["bubble_ratio"].get<double>(), 12.0 / (3 * 198), 1e-12);
  EXPECT_EQ(run["steady_state"],
            json::parse(R"({"batch_period_ms":3.0,"exact":true,"speedup_over_bp":3.0,
                                                 "utilization":1.0})"));
  EXPECT_EQ(run["bottleneck"], json::parse(R"({"rank":0,"busy_ms":196.0})"));
  EXPECT_EQ(run["stages_detail"][0],
            json::parse(R"({"stage":0,"rank":0,"forward_staleness":4,"weight_staleness":0,
                            "updates":64})"));
  json rank = run["ranks_detail"][0];
  EXPECT_NEAR(rank["utilization"].get<double>(), 192.0 / 198, 1e-12);
  rank.erase("utilization");
  EXPECT_EQ(rank, json::parse(
                      R"({"rank":0,"busy_ms":196.0,"recompute_ms":64.0,"idle_ms":2.0,
          "idle_by_cause_ms":{"forward_lock":0.0,"backward_lock":2.0,"update_lock":0.0,
                              "transfer":0.0,"queue":0.0,"start":0.0,"end":0.0},
          "peak_activations":1,"peak_inputs":5,"peak_weight_versions":1,
          "peak_memory_bytes":0,"peak_memory_at_ms":0.0,"peak_memory_task":null})"));
  EXPECT_EQ(run["critical_path"][0], json::parse(R"({"task":"0F0","start_ms":0.0,"end_ms":1.0})"));
  EXPECT_EQ(run["transfers"], json::parse(R"({"count":256,"bytes":0})"));
}

TEST(Simulate, ShortensTheCriticalPathAsAsked) {
  const Folder folder;
  const std::string arguments = "simulate --schedule bp --stages 2 --batches 400";
  const json usual = folder.json(arguments);
  EXPECT_EQ(usual["critical_path"].size(), 1000u);
  const json all = folder.json(arguments + " --critical-path all");
  EXPECT_EQ(all["critical_path"].size(), all["critical_path_tasks"]);
  EXPECT_EQ(usual["critical_path_tasks"], all["critical_path_tasks"]);
}

// Without tasks the figures are the same; what only tasks can say is null or refused.
TEST(Simulate, StreamsTheFiguresOfTheWholeRun) {
  const Folder folder;
  for (const char* run :
       {"--schedule 1f1b --stages 4 --microbatches 30 --transfer 0.3 --activation-size 5",
        "--schedule dsp --stages 4 --batches 50 --slow 1:2 --weight-size 7",
        "--schedule ssgd --stages 2 --batches 6 --replicas 3 --all-reduce 0.4",
        "--schedule gpipe --stages 3 --microbatches 4 --straggler lognormal:sigma=0.4"}) {
    SCOPED_TRACE(run);
    json whole = folder.json(fmt::format("simulate {}", run));
    json streamed = folder.json(fmt::format("simulate {} --stream", run));
    EXPECT_TRUE(streamed["critical_path"].is_null());
    EXPECT_TRUE(streamed["steady_state"].is_null());
    EXPECT_GE(streamed["tasks"], streamed["critical_path_tasks"]);
    for (const char* key : {"critical_path", "steady_state", "distribution", "tasks",
                            "undisturbed_makespan_ms", "slow_down"}) {
      whole.erase(key);
      streamed.erase(key);
    }
    for (json& rank : whole["ranks_detail"]) {
      for (const char* key : {"peak_memory_at_ms", "peak_memory_task"}) rank.erase(key);
    }
    EXPECT_EQ(streamed, whole);
  }
}

TEST(Simulate, RefusesToStreamWhatNeedsTasks) {
  const Folder folder;
  const auto refusal = [&](const std::string& flags) {
    const Outcome outcome = folder.run("simulate --stream " + flags);
    expect_refused(outcome);
    return outcome.err;
  };
  EXPECT_THAT(refusal("--schedule 1f1b --trace t.json"),
              HasSubstr("--trace: --stream holds no tasks"));
  EXPECT_THAT(refusal("--schedule 1f1b --tasks t.csv"),
              HasSubstr("--tasks: --stream holds no tasks"));
  EXPECT_THAT(refusal("--schedule 1f1b --critical-path all"),
              HasSubstr("--critical-path: --stream"));
  EXPECT_THAT(refusal("--schedule 1f1b --runs 3 --straggler lognormal:sigma=0.4"),
              HasSubstr("one run"));
  EXPECT_THAT(refusal("--schedule 1f1b --activation-size 5 --memory-limit 4"),
              HasSubstr("rank 0 needs 5 B (5 bytes), the limit is 4 B"));
  EXPECT_THAT(refusal("--schedule asgd --replicas 2"),
              HasSubstr("asgd: a server's updates come in the order of simulated time"));
}

// O01
TEST(Simulate, RunsFewerMicroBatchesThanStages) {
  const Folder folder;
  struct Case {
    int stages, parts;
    double makespan, bubble;
  };
  for (const Case& c : {Case{8, 1, 24, 7.0 / 8}, Case{4, 2, 15, 3.0 / 5}, Case{4, 3, 18, 0.5}}) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      const json run =
          folder.json(fmt::format("simulate --schedule {} --stages {} "
                                  "--microbatches {}",
                                  schedule, c.stages, c.parts));
      EXPECT_EQ(run["makespan_ms"], c.makespan) << schedule;
      EXPECT_NEAR(run["bubble_ratio"].get<double>(), c.bubble, 1e-12) << schedule;
    }
  }
}

/// Each is rounded to whole nanoseconds by itself.
TEST(Simulate, TakesHalvesOfABackwardThatAreThirds) {
  const Folder folder;
  const std::string costs = " --input-grad 0.3333333333 --weight-grad 0.3333333333 --backward ";
  EXPECT_EQ(folder.run("simulate --schedule zb-h1" + costs + "0.6666666667").code, 0);
  expect_refused(folder.run("simulate --schedule zb-h1" + costs + "0.66667"));
}

// O14
TEST(Simulate, GivesEveryPipelineSizeItsOwnTime) {
  const Folder folder;
  for (const auto& [ranks, makespan] : {std::pair{1, 192.0}, {2, 108.0}, {4, 66.0}, {8, 45.0}}) {
    const json run =
        folder.json(fmt::format("simulate --schedule 1f1b --ranks {} --microbatches 8 "
                                "--forward {}",
                                ranks, 8 / ranks));
    EXPECT_EQ(run["makespan_ms"], makespan) << ranks;
  }
}

// O17
// Three tapes and one version on either rank; stage 1 runs a unit behind.
TEST(Simulate, NamesTheMomentAndTheTaskOfTheMostMemory) {
  const Folder folder;
  const std::string run =
      "simulate --schedule gpipe --stages 2 --microbatches 3 --activation-size 10 --weight-size "
      "100 ";
  const json ranks = folder.json(run)["ranks_detail"];
  EXPECT_EQ(ranks[0]["peak_memory_bytes"], 130);
  EXPECT_EQ(ranks[0]["peak_memory_at_ms"], 2.0);
  EXPECT_EQ(ranks[0]["peak_memory_task"], "0F2");
  EXPECT_EQ(ranks[1]["peak_memory_at_ms"], 3.0);
  EXPECT_EQ(ranks[1]["peak_memory_task"], "1F2");
  EXPECT_THAT(folder.run(run).out, HasSubstr("130 B on rank 0, from 2 ms on by 0F2"));
}

TEST(Simulate, HoldsToTheMemoryLimit) {
  const Folder folder;
  const std::string sizes = " --microbatches 8 --activation-size 1.5GiB";
  const json run = folder.json("simulate --schedule 1f1b" + sizes + " --memory-limit 6GiB");
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(run["ranks_detail"][r]["peak_activations"], 4 - r);
    EXPECT_EQ(run["ranks_detail"][r]["peak_memory_bytes"], (4 - r) * 1610612736LL);
  }
  const Outcome gpipe = folder.run("simulate --schedule gpipe" + sizes + " --memory-limit 6GiB");
  expect_refused(gpipe);
  EXPECT_THAT(gpipe.err, HasSubstr("12 GiB"));
  const Outcome tight = folder.run("simulate --schedule 1f1b" + sizes + " --memory-limit 5GiB");
  expect_refused(tight);
  EXPECT_THAT(tight.err,
              AllOf(HasSubstr("rank 0"), HasSubstr("6 GiB"), HasSubstr("5 GiB"), HasSubstr("0F3")));
}

// O21
TEST(Simulate, NamesTheSlowRankAsTheBottleneck) {
  const Folder folder;
  const json run = folder.json("simulate --schedule 1f1b --microbatches 8 --slow 2:1.5");
  EXPECT_EQ(run["makespan_ms"], 43.5);
  EXPECT_EQ(run["bottleneck"], json::parse(R"({"rank":2,"busy_ms":36.0})"));
  for (const auto& [rank, idle] : {std::pair{0, 19.5}, {1, 19.5}, {2, 7.5}, {3, 19.5}}) {
    EXPECT_EQ(run["ranks_detail"][rank]["idle_ms"], idle);
  }
  double all = 0;
  for (const auto& [cause, idle] : run["idle_by_cause_ms"].items()) all += idle.get<double>();
  EXPECT_EQ(all, 3 * 19.5 + 7.5);
}

json spans_of(const Folder& folder, const std::string& file) {
  json spans = json::object();
  const json trace = json::parse(folder.read(file));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") spans[event["name"].get<std::string>()] = event;
  }
  return spans;
}

// O25
TEST(Simulate, WritesTracesInMicroseconds) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "simulate --schedule gpipe --stages 2 --forward 0.25,1.5 "
      "--backward 250ns --trace t.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json spans = spans_of(folder, "t.json");
  EXPECT_EQ(spans.at("1F0").at("ts"), 250.0);
  EXPECT_EQ(spans.at("1F0").at("dur"), 1500.0);
  EXPECT_EQ(spans.at("1B0").at("dur"), 0.25);
}

// O26
TEST(Simulate, PrintsNoNumberThatIsNone) {
  const Folder folder;
  const std::string arguments =
      "simulate --schedule gpipe --stages 2 --microbatches 2 --forward 0 --backward 0";
  const json run = folder.json(arguments + " --trace t.json");
  EXPECT_EQ(run["bubble_ratio"], nullptr);
  EXPECT_EQ(run["span_bubble_ratio"], nullptr);
  EXPECT_EQ(run["ranks_detail"][0]["utilization"], nullptr);
  EXPECT_EQ(run["steady_state"]["speedup_over_bp"], nullptr);
  EXPECT_TRUE(json::accept(folder.read("t.json")));
  const std::string text = folder.run(arguments).out;
  EXPECT_THAT(text, AllOf(HasSubstr("undefined"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

// O46
TEST(Simulate, CountsUpdatesWithAndWithoutDrain) {
  const Folder folder;
  const auto updates = [&](const std::string& flags) {
    std::vector<int> counts;
    const json run = folder.json("simulate --stages 3 --batches 10 --schedule " + flags);
    for (const json& stage : run["stages_detail"]) counts.push_back(stage["updates"]);
    return counts;
  };
  EXPECT_EQ(updates("ddg --drain no"), (std::vector{8, 9, 10}));
  EXPECT_EQ(updates("fr --drain no"), (std::vector{8, 9, 10}));
  EXPECT_EQ(updates("fdg --drain no"), (std::vector{6, 8, 10}));
  EXPECT_EQ(updates("dsp --drain no"), (std::vector{6, 8, 10}));
  EXPECT_EQ(updates("fdg"), (std::vector{10, 10, 10}));
}

// O51: recursion over the chain would overflow this stack.
TEST(Simulate, RunsAVeryLongChainOnASmallStack) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "simulate --schedule 1f1b --stages 1 --microbatches 200000 "
      "--json",
      "ulimit -s 1024;");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["makespan_ms"], 600000.0);
}

// O53
TEST(Simulate, WritesTheSameBytesEveryTime) {
  const Folder folder;
  const std::string arguments = "simulate --schedule 1f1b --stages 8 --microbatches 32 --json";
  const Outcome first = folder.run(arguments + " --trace a.json --tasks a.csv");
  const Outcome second = folder.run(arguments + " --trace b.json --tasks b.csv");
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(folder.read("a.json"), folder.read("b.json"));
  EXPECT_EQ(folder.read("a.csv"), folder.read("b.csv"));
  EXPECT_EQ(json::parse(first.out)["makespan_ms"], 117.0);
  EXPECT_THAT(folder.run(arguments + " --forward 0.1").out, HasSubstr("\"makespan_ms\":11.7,"));
}

// rank 0: F0 send F1 send receive B1 receive B0; rank 1: receive F0 receive F1 B1 send B0 send.
TEST(Simulate, TimesSendsThatBlock) {
  const Folder folder;
  const std::string two = " --schedule gpipe --stages 2 --microbatches 2 --transfer 1 ";
  EXPECT_EQ(folder.json("simulate" + two)["makespan_ms"], 11.0);
  const json run = folder.json("simulate" + two + "--sends rendezvous");
  EXPECT_EQ(run["makespan_ms"], 13.0);
  EXPECT_EQ(run["sends"], "rendezvous");
  EXPECT_EQ(folder.json("compare" + two + "--sends rendezvous")["schedules"][0]["makespan_ms"],
            13.0);
}

// Rank 1 has its gradient at 22 while its activation is on its way until 23.
TEST(Simulate, SendsFromOneQueueOfARank) {
  const Folder folder;
  const std::string run =
      "simulate --schedule 1f1b --stages 3 --microbatches 2 --activation-transfer 7 "
      "--gradient-transfer 1 --tasks t.csv";
  EXPECT_FALSE(folder.json(run).contains("send_engines"));
  EXPECT_THAT(folder.read("t.csv"), HasSubstr("1SEND_B0,SEND_B,1,0,0,1,send_backward,22,23"));
  EXPECT_EQ(folder.json(run + " --send-engines one")["send_engines"], "one");
  EXPECT_THAT(folder.read("t.csv"), HasSubstr("1SEND_B0,SEND_B,1,0,0,1,send,23,24"));
  const Outcome refused = folder.run(run + " --send-engines two");
  expect_refused(refused);
  EXPECT_THAT(refused.err, HasSubstr("--send-engines 'two': must be one of peer, one"));
}

TEST(Simulate, GivesTheDistributionOfRandomRuns) {
  const Folder folder;
  const json run = folder.json("simulate --schedule dsp --batches 20 --straggler random --runs 9");
  const json& distribution = run["distribution"];
  EXPECT_EQ(distribution["runs"], 9);
  EXPECT_LE(distribution["p50_ms"], distribution["p95_ms"]);
  EXPECT_GT(distribution["mean_ms"].get<double>(), 60.0);
  EXPECT_FALSE(folder.json("simulate --schedule dsp").contains("distribution"));
}

TEST(Show, DrawsGPipeAtUnitCost) {
  const Folder folder;
  EXPECT_EQ(folder.run("show gpipe --stages 2 --microbatches 2").out,
            "rank 0  F0  F1  .   .   .   B1  -   B0  -\n"
            "rank 1  .   F0  F1  B1  -   B0  -   .   .\n");
}

TEST(Show, DrawsTheRecomputeLaneOfDsp) {
  const Folder folder;
  const Outcome outcome = folder.run("show dsp --stages 2 --batches 3");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("rank 0 R"));
}

/// 1F1B, F 1 and B 2: the output of 0F1 waits from 2 to 4 beside two tapes; 1B0 leaves the gradient
/// of its input at 4 before its tape goes, and 1F0 that of the loss, which is smaller, at 2.
TEST(Simulate, CountsWhatIsOnItsWayOnTheRankThatMadeIt) {
  const Folder folder;
  const json run = folder.json(
      "simulate --schedule 1f1b --stages 2 --microbatches 2 --activation-size 100 --output-size "
      "10,3");
  const auto with_queues = [&](std::size_t r) {
    return run["ranks_detail"][r]["peak_memory_with_queues_bytes"].get<int>();
  };
  EXPECT_EQ(with_queues(0), 2 * 100 + 10);
  EXPECT_EQ(with_queues(1), 100 + 10);
  EXPECT_EQ(run["ranks_detail"][0]["peak_memory_bytes"], 200);
}

TEST(Simulate, RefusesBlockingSendsOfRunsThatEndBeforeTheirPartners) {
  const Folder folder;
  for (const char* sends : {"grouped", "rendezvous"}) {
    const Outcome outcome = folder.run(fmt::format(
        "simulate --schedule pipedream --stages 2 --batches 1 --drain no --sends {}", sends));
    expect_refused(outcome);
  }
  EXPECT_THAT(folder
                  .run("simulate --schedule pipedream --stages 2 --batches 1 --drain no --sends "
                       "grouped")
                  .err,
              HasSubstr("run it to its end (--drain yes)"));
}

}  // namespace
}  // namespace unlatch::test
