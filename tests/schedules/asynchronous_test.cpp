// PipeDream and PipeDream-2BW: their order token for token, and the versions they read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedules/error.h"
#include "schedules/properties.h"
#include "schedules/races.h"
#include "schedules/registry.h"
#include "schedules/replay_buffer.h"

namespace unlatch {
namespace {

TaskGraph graph_of(const std::string& schedule, const Shape& shape) {
  return ScheduleSpec::parse(schedule).make(shape).build();
}

/// "0F0,0F1,.." one line a rank.
std::vector<std::string> orders(const TaskGraph& graph) {
  std::vector<std::string> lines(graph.ranks());
  for (const Task& task : graph.tasks()) {
    if (!is_compute(task.op)) continue;
    std::string& line = lines[graph.rank(task).value];
    line += fmt::format("{}{}", line.empty() ? "" : ",", label(task));
  }
  return lines;
}

const Task& find(const TaskGraph& graph, const std::string& wanted) {
  const auto found =
      std::ranges::find_if(graph.tasks(), [&](const Task& task) { return label(task) == wanted; });
  require(found != graph.tasks().end(), "no task {}", wanted);
  return *found;
}

TEST(PipeDream, RunsInTheOrderOfTheWorkedExample) {
  const std::vector<std::string> expected{
      "0F0,0F1,0F2,0F3,0B0,0U0,0F4,0B1,0U1,0F5,0B2,0U2,0F6,0B3,0U3,0F7,0B4,0U4,0B5,0U5,0B6,0U6,0B7,"
      "0U7",
      "1F0,1F1,1F2,1B0,1U0,1F3,1B1,1U1,1F4,1B2,1U2,1F5,1B3,1U3,1F6,1B4,1U4,1F7,1B5,1U5,1B6,1U6,1B7,"
      "1U7",
      "2F0,2F1,2B0,2U0,2F2,2B1,2U1,2F3,2B2,2U2,2F4,2B3,2U3,2F5,2B4,2U4,2F6,2B5,2U5,2F7,2B6,2U6,2B7,"
      "2U7",
      "3F0,3B0,3U0,3F1,3B1,3U1,3F2,3B2,3U2,3F3,3B3,3U3,3F4,3B4,3U4,3F5,3B5,3U5,3F6,3B6,3U6,3F7,3B7,"
      "3U7"};
  for (const std::string weights : {"stash", "vertical_sync", "latest", "predicted"}) {
    EXPECT_EQ(orders(graph_of("pipedream:weights=" + weights, {.stages = 4, .batches = 8})),
              expected)
        << weights;
  }
}

TEST(PipeDream2BW, RunsInTheOrderOfTheWorkedExample) {
  const std::vector<std::string> expected{
      "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0U0,0F7,0B4,0B5,0B6,0B7,0U1",
      "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1U0,1F6,1B4,1F7,1B5,1B6,1B7,1U1",
      "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2U0,2F5,2B4,2F6,2B5,2F7,2B6,2B7,2U1",
      "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3U0,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7,3U1"};
  const TaskGraph graph =
      graph_of("pipedream-2bw", {.stages = 4, .micro_batches = 4, .batches = 2});
  EXPECT_EQ(orders(graph), expected);
}

TEST(PipeDream, ReadsTheVersionsOfItsRule) {
  const int stages = 4, batches = 9;
  for (const std::string weights : {"stash", "vertical_sync", "latest"}) {
    const TaskGraph graph =
        graph_of("pipedream:weights=" + weights, {.stages = stages, .batches = batches});
    for (int k = 0; k < stages; ++k) {
      for (int m = 0; m < batches; ++m) {
        const int delay = weights == "vertical_sync" ? stages - 1 : stages - 1 - k;
        const int read = std::max(0, m - delay);
        EXPECT_EQ(find(graph, label(Op::forward, {k}, {m})).version, read);
        EXPECT_EQ(find(graph, label(Op::backward, {k}, {m})).version,
                  weights == "latest" ? m : read);
      }
    }
  }
}

TEST(PipeDream2BW, ReadsWeightsOneUpdateOldOnEveryRank) {
  const Shape shape{.stages = 4, .micro_batches = 5, .batches = 6};
  const TaskGraph graph = graph_of("pipedream-2bw", shape);
  for (const Task& task : graph.tasks()) {
    const int batch = batch_of(graph, task);
    EXPECT_EQ(task.version, task.op == Op::update ? batch : std::max(0, batch - 1)) << label(task);
  }
  EXPECT_EQ(properties(graph).weight_versions, (std::vector{2, 2, 2, 2}));
}

TEST(PipeDream2BW, RefusesFewerMicroBatchesThanRanks) {
  EXPECT_THROW(graph_of("pipedream-2bw", {.stages = 4, .micro_batches = 3}), Error);
  EXPECT_NO_THROW(graph_of("pipedream-2bw", {.stages = 4, .micro_batches = 4}));
}

/// decoupled.md, acceptance test 9: staleness of the batches of a group, in the steady state.
TEST(Adl, HasTheLevelsOfStalenessOfItsGroups) {
  const auto levels = [](const std::string& keys, int group, int stage) {
    const Shape shape{.stages = 3, .batches = 12 * group};
    const TaskGraph graph = graph_of(fmt::format("adl:accumulate={}{}", group, keys), shape);
    std::vector<int> result;
    for (int j = 0; j < group; ++j) {
      const MicroBatch n{10 * group + j};
      result.push_back(n.value / group - find(graph, label(Op::forward, {stage}, n)).version);
    }
    return result;
  };
  using Levels = std::vector<int>;
  EXPECT_EQ(levels("", 1, 0), (Levels{4}));
  EXPECT_EQ(levels("", 2, 0), (Levels{2, 2}));
  EXPECT_EQ(levels("", 2, 1), (Levels{1, 1}));
  EXPECT_EQ(levels("", 2, 2), (Levels{0, 0}));
  EXPECT_EQ(levels("", 3, 0), (Levels{2, 1, 1}));
  EXPECT_EQ(levels("", 3, 1), (Levels{1, 1, 0}));
  EXPECT_EQ(levels("", 4, 0), (Levels{1, 1, 1, 1}));
  EXPECT_EQ(levels("", 4, 1), (Levels{1, 1, 0, 0}));
  EXPECT_EQ(levels("", 8, 0), (Levels{1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(levels("", 8, 1), (Levels{1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(levels(",order=bf", 2, 0), (Levels{2, 1}));
  EXPECT_EQ(levels(",order=bf", 2, 1), (Levels{1, 0}));
  EXPECT_EQ(levels(",order=bf", 4, 0), (Levels{1, 1, 1, 0}));
  EXPECT_EQ(levels(",order=bf", 4, 1), (Levels{1, 0, 0, 0}));
}

TEST(Adl, RefusesGroupsThatAreNoWholeNumberOfBatches) {
  for (const std::string accumulate : {"0", "-1", "1.5", "1e9"}) {
    EXPECT_THROW(graph_of("adl:accumulate=" + accumulate, {}), Error) << accumulate;
  }
}

TEST(ReplayBuffer, DrawsTheNewestOfTheEntriesDrawnLeast) {
  ReplayBuffer buffer(3);
  EXPECT_THROW(buffer.draw(), Error);
  buffer.push({0});
  EXPECT_EQ(buffer.draw(), MicroBatch{0});
  EXPECT_EQ(buffer.draw(), MicroBatch{0});
  buffer.push({1});
  buffer.push({2});
  EXPECT_EQ(buffer.draw(), MicroBatch{2});
  EXPECT_EQ(buffer.draw(), MicroBatch{1});
  EXPECT_EQ(buffer.draw(), MicroBatch{2});
  buffer.push({3});  // over 0
  EXPECT_EQ(buffer.draw(), MicroBatch{3});
  EXPECT_EQ(buffer.draw(), MicroBatch{3});
  EXPECT_EQ(buffer.draw(), MicroBatch{1});
}

TEST(Dgl, SkipsSomeOutputsAndTakesOthersAgainWhereStagesTakeTurns) {
  const TaskGraph graph = graph_of("dgl:mode=async", {.stages = 3, .batches = 60});
  for (const Stage k : {Stage{1}, Stage{2}}) {
    std::vector<int> taken(60, 0);
    MicroBatch before{0};
    for (const MicroBatch i : up_to<MicroBatch>(60)) {
      EXPECT_GE(graph.source(k, i), before) << "a buffer of one holds the newest output only";
      before = graph.source(k, i);
      ++taken[before.value];
    }
    EXPECT_GT(std::ranges::count(taken, 0), 0);
    EXPECT_GT(std::ranges::max(taken), 1);
  }
  EXPECT_THROW(graph_of("dgl:buffer=3", {.stages = 3}), Error);
}

/// No stage of DGL waits for the next one, but the graph lists its batches side by side.
TEST(Dgl, ListsTheTasksOfAllStagesBatchByBatch) {
  for (const int stages : {2, 3, 5}) {
    const TaskGraph graph = graph_of("dgl", {.stages = stages, .batches = 20});
    std::vector<int> begun(stages, 0);
    for (const Task& task : graph.tasks()) {
      begun[task.stage.value] = task.micro_batch.value + 1;
      const auto [least, most] = std::ranges::minmax(begun);
      ASSERT_LE(most - least, 1) << label(task) << " of " << stages << " stages";
    }
  }
}

TEST(Program, KeepsAnOlderVersionForTheForwardThatReadsIt) {
  Schedule schedule("hand-made", {.stages = 1, .batches = 2});
  schedule.on(Rank{0})
      .forward({0}, {0})
      .backward({0}, {0})
      .update({0}, {0})
      .forward({0}, {1}, 0)
      .backward({0}, {1})
      .update({0}, {1});
  const TaskGraph graph = schedule.build();
  EXPECT_TRUE(find(graph, "0U0").has(keeps_old));
  EXPECT_FALSE(find(graph, "0U1").has(keeps_old));
  EXPECT_TRUE(find(graph, "0F1").has(last_reader));
  EXPECT_EQ(find(graph, "0F1").version, 0);
  EXPECT_EQ(find(graph, "0B1").version, 1);
  EXPECT_EQ(properties(graph).weight_versions, (std::vector{2}));
  EXPECT_TRUE(races(graph).empty());
}

TEST(Program, RefusesToReadWeightsThatNoUpdateHasMade) {
  Schedule schedule("hand-made", {.stages = 1, .batches = 1});
  schedule.on(Rank{0}).forward({0}, {0}, 1).backward({0}, {0}).update({0}, {0});
  const std::vector<Violation> found = schedule.violations();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "version");
  EXPECT_EQ(found[0].tasks, (std::vector<std::string>{"0F0"}));
  EXPECT_THROW(schedule.build(), Error);
}

}  // namespace
}  // namespace unlatch
