// Acceptance cases about the figures and messages of the program: O10, O11, O16, O17, O20, O21,
// O35, O46, O48, O49, O52, O53.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> of_ranks(const json& run, const char* key) {
  std::vector<double> values;
  for (const json& rank : run["ranks_detail"]) values.push_back(rank[key]);
  return values;
}

// F = layers and B = 2 x layers; 28 arrangements of the sizes give one of three times.
TEST(O10, AnEvenSplitIsNearlyTwiceAsFastAsTheRemainderOnTheLastStage) {
  const Folder folder;
  const auto makespan = [&](const std::string& layers) {
    return folder
        .json("simulate --schedule 1f1b --stages 8 --microbatches 32 --forward " +
              layers)["makespan_ms"]
        .get<double>();
  };
  EXPECT_EQ(makespan("4,4,4,4,4,4,4,10"), 1044);
  std::vector<std::string> sizes{"4", "4", "5", "5", "5", "5", "5", "5"};
  do {
    const double found = makespan(fmt::format("{}", fmt::join(sizes, ",")));
    EXPECT_THAT(found, testing::AnyOf(573, 576, 579)) << fmt::format("{}", fmt::join(sizes, ","));
  } while (std::ranges::next_permutation(sizes).found);
}

TEST(O11, AReportNamesTheLayersOfEachStageAndTheirSum) {
  const Folder folder;
  const std::string partition =
      fmt::format("partition --stages 4 --layer-costs {}", fmt::join(std::vector<int>(30, 1), ","));
  const json report = folder.json(partition);
  EXPECT_EQ(report["total_layers"], 30);
  int next = 0;
  for (const json& stage : report["stages"]) {
    EXPECT_EQ(stage["first"], next);
    next = stage["last"].get<int>() + 1;
    EXPECT_THAT(stage["layers"].get<int>(), AllOf(testing::Ge(7), testing::Le(8)));
  }
  EXPECT_EQ(next, 30);
}

TEST(O17, TwoMicroBatchesClampTheWarmUp) {
  const Folder folder;
  EXPECT_THAT(
      of_ranks(folder.json("simulate --schedule 1f1b --microbatches 2"), "peak_activations"),
      ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(of_ranks(folder.json("simulate --schedule gpipe --microbatches 8 "
                                   "--activation-size 1.5GiB"),
                       "peak_memory_bytes"),
              testing::Each(12.0 * (1 << 30)));
}

TEST(O20, TheDecoupledMethodsKeepWhatTheyMustAndSayTheirOrder) {
  const Folder folder;
  const auto peaks = [&](const std::string& schedule) {
    const json run = folder.json(
        fmt::format("simulate --schedule {} --activation-size 10 --input-size 1", schedule));
    if (schedule.starts_with("fdg")) {
      EXPECT_EQ(run["parameters"]["order"], schedule.substr(schedule.size() - 2));
    }
    return of_ranks(run, "peak_memory_bytes");
  };
  EXPECT_THAT(peaks("bp"), ElementsAre(10, 10, 10, 10));
  EXPECT_THAT(peaks("ddg"), ElementsAre(40, 30, 20, 10));
  EXPECT_THAT(peaks("fr"), ElementsAre(14, 13, 12, 11));
  EXPECT_THAT(peaks("fdg:order=bf"), ElementsAre(60, 40, 20, 10));
  EXPECT_THAT(peaks("fdg:order=fb"), ElementsAre(70, 50, 30, 10));
  EXPECT_THAT(folder.run("simulate --schedule fdg").out, HasSubstr("order=fb"));
}

TEST(O21, OneSlowDeviceSetsThePaceOfBothSchedules) {
  const Folder folder;
  for (const auto& [flags, makespan] : {std::pair{"1f1b", 33.0},
                                        {"gpipe", 33.0},
                                        {"1f1b --slow 2:1.5", 43.5},
                                        {"gpipe --slow 2:1.5", 45.0},
                                        {"1f1b --slow 2:2", 55.0},
                                        {"gpipe --slow 2:2", 57.0}}) {
    const json run = folder.json(fmt::format("simulate --microbatches 8 --schedule {}", flags));
    EXPECT_EQ(run["makespan_ms"], makespan) << flags;
    if (makespan == 33) continue;
    EXPECT_EQ(run["bottleneck"]["rank"], 2) << flags;
    const auto idle = of_ranks(run, "idle_ms");
    EXPECT_EQ(std::ranges::min_element(idle) - idle.begin(), 2) << flags;
  }
}

// Four ranks compute 100, 100, 300 and 100, then all reduce until 320.
TEST(O35, TheLeastWaiterIsTheStragglerThatABarrierHides) {
  const Folder folder;
  const json run = folder.json(
      "simulate --schedule ssgd --replicas 4 --stages 1 --forward 40 --backward 60 --all-reduce 20 "
      "--slow 2:3");
  EXPECT_EQ(run["makespan_ms"], 320.0);
  EXPECT_THAT(of_ranks(run, "busy_ms"), ElementsAre(100, 100, 300, 100));
  EXPECT_THAT(of_ranks(run, "idle_ms"), ElementsAre(220, 220, 20, 220));
  EXPECT_EQ(run["bottleneck"]["rank"], 2);
}

// 128 ranks, 2048 micro-batches of F = 1 and B = 2.
TEST(O52, AWindowOfALongRunHoldsTheSpansThatTouchIt) {
  const Folder folder;
  const std::string run = "simulate --schedule 1f1b --stages 128 --microbatches 2048 ";
  const Outcome whole = folder.run(run + "--trace whole.json.gz --trace-ranks 0,127 --json");
  EXPECT_EQ(json::parse(whole.out)["makespan_ms"], 6525.0);
  const Outcome large = folder.run(run + "--trace /dev/full");
  EXPECT_THAT(large.err, AllOf(HasSubstr("/dev/full will hold"), HasSubstr("events, about"),
                               HasSubstr("--trace-window")));
  ASSERT_EQ(folder.run(run + "--trace part.json --trace-window 3000ms..3100ms").code, 0);
  int spans = 0;
  const json part = json::parse(folder.read("part.json"));
  for (const json& event : part["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double start = event["ts"], end = start + event["dur"].get<double>();
    EXPECT_LT(start, 3100e3);
    EXPECT_GT(end, 3000e3);
    ++spans;
  }
  // Every rank works all the time then: 100 units of F = 1 and B = 2 in turn are 66 whole tasks and
  // one or two that stick out.
  EXPECT_GE(spans, 128 * 66);
  EXPECT_LE(spans, 128 * 69);
}

TEST(O52, TheWholeOfALongRunIsWrittenInLittleMemory) {
  const Folder folder;
  const Outcome written =
      folder.run("simulate --schedule 1f1b --stages 128 --microbatches 2048 --trace whole.json");
  ASSERT_EQ(written.code, 0) << written.err;
  std::ifstream trace(folder.file("whole.json"));
  std::int64_t events = 0, computed = 0;
  for (std::string line; std::getline(trace, line);) {
    if (line.starts_with(R"({"name")")) ++events;
    if (line.find(R"("cat":"F")") != line.npos || line.find(R"("cat":"B")") != line.npos) {
      ++computed;
    }
  }
  EXPECT_EQ(computed, 524'288);
  EXPECT_THAT(written.err, HasSubstr(fmt::format("will hold {} events", events)));
  rusage programs{};  // the largest of all that this test program has run so far
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &programs), 0);
  EXPECT_LT(programs.ru_maxrss, 1 << 20) << "KiB";
}

TEST(O52, TheNoteOnSizeComesBeforeTheFile) {
  const Folder folder;
  const std::string run = "simulate --schedule 1f1b --stages 4 --microbatches 8 --trace ";
  const Outcome written = folder.run(run + "t.json");
  ASSERT_EQ(written.code, 0) << written.err;
  int events = 0;
  std::istringstream trace(folder.read("t.json"));
  for (std::string line; std::getline(trace, line);) events += line.starts_with(R"({"name")");
  const Outcome full = folder.run(run + "/dev/full");
  EXPECT_NE(full.code, 0);
  for (const auto& [outcome, file] : {std::pair{&written, "t.json"}, {&full, "/dev/full"}}) {
    const std::string note = fmt::format("note: {} will hold {} events, about ", file, events);
    ASSERT_TRUE(outcome->err.starts_with(note)) << outcome->err;
    const std::string size = outcome->err.substr(note.size());
    ASSERT_THAT(size.substr(0, size.find('\n')), testing::EndsWith(" KiB"));
    EXPECT_NEAR(std::stod(size) * 1024, folder.read("t.json").size(),
                0.2 * folder.read("t.json").size());
  }
}

TEST(O52, RangesOfRanksAreThoseOfTheirLists) {
  const Folder folder;
  const std::string run = "simulate --schedule 1f1b --stages 8 --microbatches 4 --trace ";
  ASSERT_EQ(folder.run(run + "ranges.json --trace-ranks 0-2,5,6-6").code, 0);
  ASSERT_EQ(folder.run(run + "list.json --trace-ranks 0,1,2,5,6").code, 0);
  ASSERT_EQ(folder.run(run + "all.json --trace-ranks 0-7").code, 0);
  ASSERT_EQ(folder.run(run + "whole.json").code, 0);
  EXPECT_EQ(folder.read("ranges.json"), folder.read("list.json"));
  EXPECT_EQ(folder.read("all.json"), folder.read("whole.json"));
  EXPECT_LT(folder.read("list.json").size(), folder.read("whole.json").size());
}

TEST(O52, AWindowMustBeOne) {
  const Folder folder;
  const std::string run = "simulate --schedule bp --trace t.json ";
  for (const auto& [flag, message] : {std::pair{"--trace-window 3..3", "must end after it begins"},
                                      {"--trace-window 3ms", "FROM..TO"},
                                      {"--trace-window 1..soon", "soon"},
                                      {"--trace-ranks 4", "0..3"},
                                      {"--trace-ranks 0-4", "0..3"},
                                      {"--trace-ranks -1", "0..3"},
                                      {"--trace-ranks 1-", "0..3"},
                                      {"--trace-ranks 2-1", "ends before it begins"}}) {
    const Outcome refused = folder.run(run + flag);
    expect_refused(refused);
    EXPECT_THAT(refused.err, HasSubstr(message));
  }
  EXPECT_EQ(folder.files(), 0);
  const Outcome alone = folder.run("simulate --schedule bp --trace-ranks 1");
  expect_refused(alone);
  EXPECT_THAT(alone.err, HasSubstr("is for --trace FILE"));
}

// Transfers inside a node cost nothing, between nodes 2 ms each way. What each placement crosses,
// ClusterCli counts.
TEST(O16, PlacementDecidesWhatTransfersCost) {
  const Folder folder;
  for (const auto& [transfers, makespan] : {std::pair{"0,0,0,2,0,0,0", 57.0},
                                            {"0,2,0,2,0,2,0", 69.0},
                                            {"2,2,2,2,2,2,2", 97.0},
                                            {"0", 45.0}}) {
    const json run = folder.json(fmt::format(
        "simulate --schedule 1f1b --stages 8 --microbatches 8 --transfer {}", transfers));
    EXPECT_EQ(run["makespan_ms"], makespan) << transfers;
  }
}

struct TaskRow {
  char kind = 0;
  int stage = 0, batch = 0;
  double start = 0;
  std::string reads;
};

/// The lines of a tasks file.
std::vector<TaskRow> task_rows(const std::string& csv) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line,
            "task,kind,stage,batch,microbatch,rank,lane,start_ms,end_ms,reads_version,"
            "writes_version");
  std::vector<TaskRow> rows;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    rows.push_back({cells.at(1).front(), std::stoi(cells.at(2)), std::stoi(cells.at(3)),
                    std::stod(cells.at(7)), cells.at(9)});
  }
  return rows;
}

/// What each stage does in each iteration; an iteration begins when stage 0 takes its batch.
struct Iterations {
  /// [iteration][stage]; -1: nothing.
  std::map<int, std::map<int, int>> forward, update;
  std::map<int, int> updates_done;  ///< by stage, at the end of iteration 9

  explicit Iterations(const std::vector<TaskRow>& rows) {
    std::vector<double> starts;
    for (const TaskRow& row : rows) {
      if (row.kind == 'F' && row.stage == 0) starts.push_back(row.start);
    }
    for (const TaskRow& row : rows) {
      const int t =
          static_cast<int>(std::ranges::upper_bound(starts, row.start) - starts.begin()) - 1;
      if (t > 9) continue;
      if (row.kind == 'F') forward[t][row.stage] = row.batch;
      if (row.kind != 'U') continue;
      update[t][row.stage] = row.batch;
      ++updates_done[row.stage];
    }
  }
};

/// 12 batches, of which iterations 0 to 9 are looked at; an update takes time, so that it lies
/// within its iteration.
Iterations iterations_of(const Folder& folder, const std::string& schedule) {
  const Outcome outcome = folder.run(fmt::format(
      "simulate --schedule {} --stages 3 --batches 12 --update 0.01 --tasks t.csv", schedule));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return Iterations(task_rows(folder.read("t.csv")));
}

using ByStage = std::map<int, int>;

/// Stage k works on batch t - late(k) in iteration t.
template <class Late>
ByStage batches_of_iteration(int t, const Late& late) {
  ByStage batches;
  for (int k = 0; k < 3; ++k) {
    if (t >= late(k)) batches[k] = t - late(k);
  }
  return batches;
}

TEST(O46, DelayedGradientsForwardOneBatchAndUpdateWithOlderOnes) {
  const Folder folder;
  for (const char* schedule : {"ddg", "fr"}) {
    SCOPED_TRACE(schedule);
    Iterations run = iterations_of(folder, schedule);
    for (int t = 0; t < 10; ++t) {
      EXPECT_EQ(run.forward[t], (ByStage{{0, t}, {1, t}, {2, t}}));
      EXPECT_EQ(run.update[t], batches_of_iteration(t, [](int k) { return 2 - k; }));
    }
    EXPECT_EQ(run.update[2], (ByStage{{0, 0}, {1, 1}, {2, 2}}));
    EXPECT_EQ(run.updates_done, (ByStage{{0, 8}, {1, 9}, {2, 10}}));
  }
}

TEST(O46, FdgForwardsAnotherBatchOnEveryModule) {
  const Folder folder;
  for (const char* schedule : {"fdg", "dsp:form=lockstep"}) {
    SCOPED_TRACE(schedule);
    Iterations run = iterations_of(folder, schedule);
    for (int t = 0; t < 10; ++t) {
      EXPECT_EQ(run.forward[t], batches_of_iteration(t, [](int k) { return k; }));
      EXPECT_EQ(run.update[t], batches_of_iteration(t, [](int k) { return 4 - k; }));
    }
    EXPECT_EQ(run.forward[4], (ByStage{{0, 4}, {1, 3}, {2, 2}}));
    EXPECT_EQ(run.update[4], (ByStage{{0, 0}, {1, 1}, {2, 2}}));
    EXPECT_EQ(run.updates_done, (ByStage{{0, 6}, {1, 7}, {2, 8}}));
  }
}

TEST(O46, DrainingLosesNoBatch) {
  const Folder folder;
  for (const char* schedule : {"ddg", "fr", "fdg", "dsp"}) {
    const json simulated =
        folder.json(fmt::format("simulate --stages 3 --batches 10 --schedule {}", schedule));
    for (const json& stage : simulated["stages_detail"]) {
      EXPECT_EQ(stage["updates"], 10) << schedule;
    }
  }
}

TEST(O46, FeaturesReplayTakesCurrentWeightsAndDelayedGradientsThoseOfTheForward) {
  const Folder folder;
  for (const char* schedule : {"ddg", "fr"}) {
    iterations_of(folder, schedule);
    for (const TaskRow& row : task_rows(folder.read("t.csv"))) {
      if (row.kind != 'B' && row.kind != 'R') continue;
      const int old = std::max(0, row.batch - (2 - row.stage));
      EXPECT_EQ(row.reads, std::to_string(schedule == std::string("fr") ? row.batch : old));
    }
  }
}

TEST(O48, AMisspeltKeyStopsBeforeAnyWork) {
  const Folder folder;
  folder.write("study.json",
               "{\"schedule\": \"1f1b\",\n\"micro_batchs\": 8,\n\"tasks\": \"t.csv\"}");
  const Outcome outcome = folder.run("simulate study.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("'micro_batchs'"), HasSubstr("line 2"), HasSubstr("'microbatches'")));
  EXPECT_EQ(folder.files(), 1);
}

TEST(O48, ARightKeyInASectionIsNamedWithItsPlace) {
  const Folder folder;
  folder.write("study.json",
               "{\"schedule\": \"1f1b\",\n\"costs\": {\"forward\": 2,\n\"bakward\": 3},\n"
               "\"stages\": {\"microbatches\": 4}}");
  const Outcome outcome = folder.run("simulate study.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("line 2: unknown key 'costs'"),
                    HasSubstr("line 2: key 'forward' stands inside 'costs'"),
                    HasSubstr("line 3: unknown key 'bakward'"), HasSubstr("'backward'"),
                    HasSubstr("line 4: key 'microbatches' stands inside 'stages'")));
}

TEST(O48, AKeyWithTwoValuesIsAnErrorInTheFileAndOnTheCommandLine) {
  const Folder folder;
  folder.write("study.json", "{\"schedule\": \"1f1b\",\n\"stages\": 3,\n\"stages\": 4}");
  const Outcome file = folder.run("simulate study.json");
  expect_refused(file);
  EXPECT_THAT(file.err, AllOf(HasSubstr("line 3"), HasSubstr("'stages'"), HasSubstr("line 2")));
  const Outcome flags = folder.run("simulate --schedule 1f1b --microbatches 8 --microbatches 9");
  expect_refused(flags);
  EXPECT_THAT(flags.err, AllOf(HasSubstr("--microbatches"), HasSubstr("'8'"), HasSubstr("'9'")));
  const Outcome flag = folder.run("simulate --schedule 1f1b --microbatch 8");
  expect_refused(flag);
  EXPECT_THAT(flag.err, AllOf(HasSubstr("'--microbatch'"), HasSubstr("'--microbatches'")));
}

struct Nonsense {
  const char* arguments;
  std::vector<const char*> words;  ///< setting, value and rule
};

TEST(O49, NonsenseIsRefusedWithSettingValueAndRule) {
  const Folder folder;
  const Nonsense rows[] = {
      {"simulate --schedule 1f1b --microbatches 0", {"--microbatches", "'0'", "whole number in 1"}},
      {"simulate --schedule 1f1b --microbatches -1", {"--microbatches", "'-1'", "whole number"}},
      {"simulate --schedule 1f1b --microbatches 2.5", {"--microbatches", "'2.5'", "whole number"}},
      {"simulate --schedule 1f1b --microbatches ''", {"--microbatches", "''", "whole number"}},
      {"simulate --schedule 1f1b --ranks 0", {"--ranks", "'0'", "whole number in 1"}},
      {"partition --layer-costs 1,1,1 --stages 4", {"3 layers", "4 stages"}},
      {"train --schedule bp --model mlp --data digits --stages 6", {"5 layers", "6 stages"}},
      {"numerics --schedule bp --weights 1,2 --stages 3", {"--stages", "'3'", "1..2"}},
      {"simulate --schedule gpipe --batch-size 10 --microbatches 4",
       {"--batch-size 10", "not divisible", "--microbatches 4"}},
      {"simulate --schedule bp --forward -1", {"--forward", "'-1'", "finite", ">= 0"}},
      {"simulate --schedule bp --forward nan", {"--forward", "'nan'", "finite"}},
      {"simulate --schedule bp --forward 1,5", {"--forward", "'1,5'", "list of 2", "dot"}},
      {"simulate --schedule gpipe:staleness=2", {"gpipe", "staleness", "synchronous"}},
      {"simulate --schedule 1f1b:staleness=2", {"1f1b", "staleness", "synchronous"}},
      {"simulate --schedule 1f1b --ranks 1000000000", {"--ranks", "1000000000", "1048576"}},
      {"simulate --schedule 1f1b --stages 1000000000", {"--stages", "1000000000", "1048576"}},
      {"simulate --schedule 1f1b --stages 4 --chunks 2", {"1f1b", "one stage a rank", "2"}}};
  for (const Nonsense& row : rows) {
    SCOPED_TRACE(row.arguments);
    const Outcome outcome = folder.run(row.arguments);
    expect_refused(outcome);
    for (const char* word : row.words) EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

TEST(O53, NumericsPrintsTheSameBytesWithOneThreadAndEight) {
  const Folder folder;
  const std::string run =
      "numerics --schedule 1f1b --microbatches 4 --batches 3 "
      "--weights 0.9,-0.8,1.1,0.7,0.8,-1,1.2,0.6 --json --threads ";
  const Outcome one = folder.run(run + "1");
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(folder.run(run + "8").out, one.out);
}

// The steady state does not depend on how many batches a run has.
TEST(Simulate, GivesTheStalenessOfTheSteadyStateForShortRunsToo) {
  const Folder folder;
  for (const char* batches : {"1", "2", "5", "64", "3 --drain no"}) {
    const json stages = folder.json(
        fmt::format("simulate --schedule fdg --stages 3 --batches {}", batches))["stages_detail"];
    EXPECT_EQ(stages[0]["forward_staleness"], 4) << batches;
    EXPECT_EQ(stages[0]["weight_staleness"], 4) << batches;
    EXPECT_EQ(stages[1]["forward_staleness"], 2) << batches;
    EXPECT_EQ(stages[2]["forward_staleness"], 0) << batches;
  }
  const json ddg = folder.json("simulate --schedule ddg --stages 3 --batches 2")["stages_detail"];
  EXPECT_EQ(ddg[0]["forward_staleness"], 2);
  EXPECT_EQ(ddg[0]["updates"], 2);
}

}  // namespace
}  // namespace unlatch::test
