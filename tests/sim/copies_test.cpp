// Several copies of the model: the orders of DualPipe and Chimera, replicas side by side, and the
// all-reduces that join them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedules/error.h"
#include "schedules/races.h"
#include "schedules/registry.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "traces/metrics.h"

namespace unlatch {
namespace {

TaskGraph graph_of(const std::string& specification, const Shape& shape) {
  return ScheduleSpec::parse(specification).make(shape).build();
}

/// "d0F0" or "u3F0" for the two directions, micro-batches counted in each.
std::string direction_label(const TaskGraph& graph, const Task& task) {
  const Shape& shape = graph.shape();
  const int copy = shape.copy_of(task.stage);
  const int share = shape.micro_batches / shape.copies;
  return fmt::format("{}{}{}{}", copy == 0 ? 'd' : 'u', shape.model_stage(task.stage).value,
                     letter(task.op), task.micro_batch.value % shape.micro_batches - copy * share);
}

/// Rank by rank, blanks between the tasks; updates left out.
std::vector<std::string> orders(const TaskGraph& graph) {
  std::vector<std::string> rows(graph.ranks());
  for (const Task& task : graph.tasks()) {
    if (!is_compute(task.op) || task.op == Op::update) continue;
    std::string& row = rows[graph.rank(task).value];
    if (!row.empty()) row += ' ';
    row += direction_label(graph, task);
  }
  return rows;
}

/// A row of the appendix: overlapped blocks taken apart.
std::string plain(std::string row) {
  const std::string end_of_block = ")OVERLAP_F_B";
  for (std::size_t at; (at = row.find(end_of_block)) != std::string::npos;) {
    row.erase(at, end_of_block.size());
  }
  std::erase(row, '(');
  std::ranges::replace_if(
      row, [](char c) { return c == ',' || c == ';'; }, ' ');
  return row;
}

Metrics measured(const TaskGraph& graph, const std::string& forward, const std::string& backward) {
  sim::CostSettings settings;
  settings.forward = forward;
  settings.backward = backward;
  const Shape& shape = graph.shape();
  const sim::StageCosts costs(
      sim::stage_times(settings, shape.stages_a_copy()).for_copies(shape.copies));
  return metrics(graph, sim::run(graph, costs));
}

// modern.md A.14.
TEST(DualPipe, RunsTheEightStepsOfItsSource) {
  const TaskGraph graph = graph_of("dualpipe", {.stages = 4, .micro_batches = 8});
  const std::vector<std::string> published{
      "d0F0,d0F1,d0F2,u3F0,u3I0,u3W0,u3F1,(d0F3;u3B1)OVERLAP_F_B,(u3F2;d0B0)OVERLAP_F_B,u3B2,"
      "(u3F3;d0B1)OVERLAP_F_B,u3B3,d0I2,d0W2,d0I3,d0W3",
      "d1F0,u2F0,d1F1,u2F1,d1F2,u2B0,(u2F2;d1B0)OVERLAP_F_B,(d1F3;u2B1)OVERLAP_F_B,"
      "(u2F3;d1B1)OVERLAP_F_B,u2B2,d1B2,u2I3,d1I3,u2W3,d1W3",
      "u1F0,d2F0,u1F1,d2F1,u1F2,d2B0,(d2F2;u1B0)OVERLAP_F_B,(u1F3;d2B1)OVERLAP_F_B,"
      "(d2F3;u1B1)OVERLAP_F_B,d2B2,u1B2,d2I3,u1I3,d2W3,u1W3",
      "u0F0,u0F1,u0F2,d3F0,d3I0,d3W0,d3F1,(u0F3;d3B1)OVERLAP_F_B,(d3F2;u0B0)OVERLAP_F_B,d3B2,"
      "(d3F3;u0B1)OVERLAP_F_B,d3B3,u0I2,u0W2,u0I3,u0W3"};
  const auto ours = orders(graph);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ours[r], plain(published[r])) << "rank " << r;
}

// modern.md 8.2: 3M + P - 2 where F = I = W = 1.
TEST(DualPipe, TakesThePublishedTimes) {
  for (const auto& [ranks, micro_batches, makespan] : {std::tuple(4, 8, 26),
                                                       {4, 10, 32},
                                                       {6, 12, 40},
                                                       {8, 16, 54},
                                                       {8, 20, 66},
                                                       {8, 32, 102},
                                                       {16, 64, 206}}) {
    const TaskGraph graph = graph_of("dualpipe", {.stages = ranks, .micro_batches = micro_batches});
    EXPECT_EQ(to_ms(measured(graph, "1", "2").makespan), makespan) << ranks << ' ' << micro_batches;
  }
}

// modern.md A.15.
TEST(Chimera, RunsTheSlotsOfItsSource) {
  const TaskGraph graph = graph_of("chimera", {.stages = 4, .micro_batches = 8});
  const std::vector<std::string> published{
      "d0F0,d0F1,u3F0,u3B0,u3F1,u3B1,d0B0,d0F2,d0B1,d0F3,u3F2,u3B2,u3F3,u3B3,d0B2,d0B3",
      "d1F0,u2F0,d1F1,u2F1,u2B0,d1B0,u2B1,d1B1,d1F2,u2F2,d1F3,u2F3,u2B2,d1B2,u2B3,d1B3",
      "u1F0,d2F0,u1F1,d2F1,d2B0,u1B0,d2B1,u1B1,u1F2,d2F2,u1F3,d2F3,d2B2,u1B2,d2B3,u1B3",
      "u0F0,u0F1,d3F0,d3B0,d3F1,d3B1,u0B0,u0F2,u0B1,u0F3,d3F2,d3B2,d3F3,d3B3,u0B2,u0B3"};
  const auto ours = orders(graph);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ours[r], plain(published[r])) << "rank " << r;
}

// modern.md 8.2 and 2.12.
TEST(Chimera, TakesThePublishedSlots) {
  for (const auto& [ranks, micro_batches, equal, twice] : {std::tuple(4, 4, 10, 16),
                                                           {4, 8, 18, 30},
                                                           {8, 8, 22, 36},
                                                           {8, 16, 38, 66},
                                                           {16, 16, 46, 76}}) {
    const TaskGraph graph = graph_of("chimera", {.stages = ranks, .micro_batches = micro_batches});
    EXPECT_EQ(to_ms(measured(graph, "1", "1").makespan), equal) << ranks << ' ' << micro_batches;
    EXPECT_EQ(to_ms(measured(graph, "1", "2").makespan), twice) << ranks << ' ' << micro_batches;
  }
}

TEST(Chimera, RefusesWhatDoesNotFitItsUnits) {
  EXPECT_THROW(graph_of("chimera", {.stages = 3, .micro_batches = 6}), Error);
  EXPECT_THROW(graph_of("chimera", {.stages = 4, .micro_batches = 6}), Error);
  EXPECT_THROW(graph_of("dualpipe", {.stages = 4, .micro_batches = 6}), Error);
}

TEST(Replicas, RunTheScheduleSideBySide) {
  const Shape asked{.stages = 3, .micro_batches = 4, .batches = 2, .replicas = 3};
  const TaskGraph one = graph_of("1f1b", {.stages = 3, .micro_batches = 4, .batches = 2});
  const TaskGraph all = graph_of("1f1b", asked);
  EXPECT_EQ(all.ranks(), 9);
  EXPECT_EQ(all.shape().micro_batches, 12);
  std::vector<std::vector<Op>> mine(3), theirs(9);
  for (const Task& task : one.tasks()) mine[one.rank(task).value].push_back(task.op);
  for (const Task& task : all.tasks()) {
    if (is_compute(task.op)) theirs[all.rank(task).value].push_back(task.op);
  }
  for (int r = 0; r < 9; ++r) EXPECT_EQ(theirs[r], mine[r % 3]);
  EXPECT_TRUE(races(all).empty());
}

TEST(Replicas, UpdateOnlyAfterAllOfThemHaveTheirGradients) {
  const TaskGraph graph = graph_of("ssgd", {.stages = 2, .batches = 3, .replicas = 4});
  sim::CostSettings settings;
  settings.all_reduce = "5";
  const sim::StageCosts costs(sim::stage_times(settings, 2).for_copies(4));
  const Timeline timeline = sim::run(graph, costs);
  int joined = 0;
  for (const TaskId id : graph.ids()) {
    const Task& update = graph.task(id);
    if (update.op != Op::update) continue;
    for (const TaskId other : graph.ids()) {
      const Task& backward = graph.task(other);
      if (backward.op != Op::backward || batch_of(graph, backward) != batch_of(graph, update) ||
          graph.shape().model_stage(backward.stage) != graph.shape().model_stage(update.stage)) {
        continue;
      }
      EXPECT_LE(timeline[other].end + std::chrono::milliseconds(5), timeline[id].start);
      ++joined;
    }
  }
  EXPECT_EQ(joined, 2 * 3 * 4 * 4) << "stages, batches, updates and backwards of the copies";
}

TEST(Replicas, AverageTheirWeightsEveryFewUpdates) {
  const TaskGraph graph = graph_of("local-sgd:steps=3", {.stages = 1, .batches = 7, .replicas = 2});
  std::vector<std::string> averages;
  for (const Task& task : graph.tasks()) {
    if (task.op == Op::all_reduce) averages.push_back(label(task));
  }
  EXPECT_EQ(averages, (std::vector<std::string>{"0AR2", "0AR5", "0AR6"}));
  EXPECT_TRUE(races(graph).empty());
}

}  // namespace
}  // namespace unlatch
