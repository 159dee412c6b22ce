// Copies of a model with a server: the order of its updates, its links, and the times of
// modern.md 5.2, 5.3 and 5.5.
#include "tests/sim/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "schedules/properties.h"
#include "schedules/races.h"
#include "sim/straggler_costs.h"
#include "sim/time_order.h"

namespace unlatch::sim {
namespace {

using testing::ElementsAre;

struct ServerTimes {
  std::string update = "0", push = "0", pull = "0", all_reduce = "0";
};

/// F=1 ms, B=2 ms.
StageCosts server_costs(const ServerTimes& times, int stages, int replicas) {
  CostSettings settings;
  settings.update = times.update;
  settings.push = times.push;
  settings.pull = times.pull;
  settings.all_reduce = times.all_reduce;
  return StageCosts(stage_times(settings, stages).for_copies(replicas));
}

StragglerCosts slowed(const StageCosts& costs, const TaskGraph& graph, std::vector<double> slow) {
  return {costs, graph, {.slow = std::move(slow)}, 0};
}

Schedule in_time_order(std::string_view spec, const Shape& shape, const StageCosts& costs,
                       const std::vector<double>& slow) {
  Schedule schedule = ScheduleSpec::parse(spec).make(shape);
  const TaskGraph unordered = unordered_graph(schedule, costs.links());
  schedule.learning().agreement.order = order_of_arrival(unordered, slowed(costs, unordered, slow));
  return schedule;
}

TEST(Server, TakesUpdatesInTheOrderOfSimulatedTime) {
  const Shape shape{.stages = 1, .batches = 4, .replicas = 2};
  const StageCosts costs = server_costs({}, 1, 2);
  // Copy 0 comes every 3 ms, copy 1 every 6 ms; at the same time copy 0 goes first.
  const Schedule schedule = in_time_order("asgd", shape, costs, {1, 2});
  EXPECT_THAT(schedule.learning().agreement.order,
              ElementsAre(ElementsAre(0, 0, 1, 0, 0, 1, 1, 1)));
  const TaskGraph graph = schedule.build();
  EXPECT_TRUE(races(graph).empty());
  const Timeline timeline = run(graph, slowed(costs, graph, {1, 2}));
  std::map<int, nanoseconds> ends;
  for (const TaskId id : graph.ids()) {
    if (graph.task(id).op == Op::update) ends[graph.task(id).version] = timeline[id].end;
  }
  EXPECT_THAT(ends, ElementsAre(std::pair(0, ms(3)), std::pair(1, ms(6)), std::pair(2, ms(6)),
                                std::pair(3, ms(9)), std::pair(4, ms(12)), std::pair(5, ms(12)),
                                std::pair(6, ms(18)), std::pair(7, ms(24))));
  // Two updates every 4 ms while both are at work: 1/3 + 1/6 of a batch a millisecond.
  EXPECT_NEAR(steady_state(
                  [&](int batches) {
                    return in_time_order("asgd", {.stages = 1, .batches = batches, .replicas = 2},
                                         costs, {1, 2})
                        .build();
                  },
                  slowed(costs, graph, {1, 2}))
                  .batch_period_ns,
              4e6, 1e3);
}

TEST(Server, KeepsUpdatesOfOneStageApart) {
  const StageCosts costs = server_costs({.update = "1"}, 1, 3);
  const TaskGraph graph = graph_of("asgd", {.stages = 1, .batches = 5, .replicas = 3});
  const Timeline timeline = run(graph, costs);
  std::map<int, Span> updates;
  for (const TaskId id : graph.ids()) {
    if (graph.task(id).op == Op::update) updates[graph.task(id).version] = timeline[id];
  }
  ASSERT_EQ(updates.size(), 15U);
  for (int version = 1; version < 15; ++version) {
    EXPECT_GE(updates[version].start, updates[version - 1].end);
  }
  EXPECT_THAT(properties(graph).forward_staleness, ElementsAre(2, 2, 2));
}

TEST(Server, OnlyItsOwnReplicaWaitsForAnUpdate) {
  // T_c + T_p + T_u + T_d a batch, the links of a copy its own; U in turn fits in between.
  const ServerTimes times{.update = "1", .push = "2", .pull = "3"};
  EXPECT_DOUBLE_EQ(period_ms("asgd", {.stages = 1, .replicas = 3}, server_costs(times, 1, 3)), 9);
  // One server of 4 ms an update is what three copies wait for.
  EXPECT_DOUBLE_EQ(
      period_ms("asgd", {.stages = 1, .replicas = 3}, server_costs({.update = "4"}, 1, 3)), 12);
}

TEST(Server, ABoundStopsTheFastReplica) {
  for (const int bound : {0, 1, 3}) {
    const Shape shape{.stages = 2, .batches = 12, .replicas = 2};
    const StageCosts costs = server_costs({.update = "0.25", .push = "0.5", .pull = "0.5"}, 2, 2);
    const std::vector<double> slow{1, 1, 3, 3};
    const Schedule schedule = in_time_order(fmt::format("ssp:bound={}", bound), shape, costs, slow);
    const TaskGraph graph = with_transfers(schedule.build(), costs.links());
    EXPECT_TRUE(races(graph).empty());
    const Timeline timeline = run(graph, slowed(costs, graph, slow));
    std::map<std::pair<int, int>, nanoseconds> applied;  // stage, batch
    for (const TaskId id : graph.ids()) {
      const Task& task = graph.task(id);
      if (task.op == Op::update) {
        applied[{task.stage.value, batch_of(graph, task)}] = timeline[id].end;
      }
    }
    int waits = 0;
    for (const TaskId id : graph.ids()) {
      const Task& task = graph.task(id);
      const int done = batch_of(graph, task) - 1;
      if (task.op != Op::forward || done < bound) continue;
      const int other = (task.stage.value + 2) % 4;
      const nanoseconds pulled = applied[{other, done - bound}] + ms(0.5);
      EXPECT_GE(timeline[id].start, pulled);
      waits += timeline[id].start == pulled ? 1 : 0;
    }
    EXPECT_GT(waits, 0) << "the fast replica meets the bound " << bound;
  }
}

TEST(Server, DelayedReplicasTakeTheTimeOfTheirModel) {
  // modern.md 5.5, the task graph's form: T_c = 3, T_l, T_p, T_u, T_d; k iterations take k (T_c +
  // T_l) and once max(0, T_p + T_u + T_d - T_c - T_l).
  const auto period = [](int delay, const ServerTimes& times) {
    return delay * period_ms(fmt::format("ssd-sgd:warmup=0,delay={}", delay),
                             {.stages = 1, .replicas = 2}, server_costs(times, 1, 2));
  };
  const ServerTimes hidden{.update = "1", .push = "1", .pull = "1", .all_reduce = "1"};
  const ServerTimes stalls{.update = "1", .push = "2", .pull = "2", .all_reduce = "1"};
  for (const int delay : {1, 2, 4, 5}) {
    EXPECT_DOUBLE_EQ(period(delay, hidden), delay * 4.0);
    EXPECT_DOUBLE_EQ(period(delay, stalls), delay * 4.0 + 1);
    // A push that takes longer than an iteration is what all wait for: k (T_p + T_u) + T_d.
    EXPECT_DOUBLE_EQ(period(delay, {.update = "1", .push = "6", .pull = "3", .all_reduce = "2"}),
                     delay * 8.0 + 3);
  }
}

TEST(Server, WarmsUpSynchronously) {
  // T_c + T_p + T_u + T_d; no local step before the first delayed batch, whose U takes weights.
  const ServerTimes times{.update = "0", .push = "2", .pull = "4", .all_reduce = "1"};
  EXPECT_DOUBLE_EQ(
      period_ms("ssd-sgd:warmup=1000000", {.stages = 1, .replicas = 2}, server_costs(times, 1, 2)),
      10);
}

TEST(Server, LinksAreTasksOfTheCopysRank) {
  const StageCosts costs = server_costs({.push = "1", .pull = "1"}, 1, 2);
  const TaskGraph graph =
      graph_of("asgd", {.stages = 1, .batches = 2, .replicas = 2}, costs.links());
  std::vector<std::string> labels;
  for (const Task& task : graph.tasks()) {
    if (graph.rank(task) == Rank{1}) labels.push_back(label(task));
  }
  EXPECT_THAT(labels,
              ElementsAre("1F1", "1B1", "1PUSH1", "1U1", "1PULL1", "1F3", "1B3", "1PUSH3", "1U3"));
  // Without a server the same costs change nothing.
  EXPECT_EQ(graph_of("1f1b", {.stages = 2, .micro_batches = 2}, costs.links()).size(),
            graph_of("1f1b", {.stages = 2, .micro_batches = 2}).size());
}

TEST(Server, RefusesAnOrderThatLeavesUpdatesOut) {
  Schedule schedule = ScheduleSpec::parse("asgd").make({.stages = 1, .batches = 2, .replicas = 2});
  schedule.learning().agreement.order = {{0, 0, 0, 1}};
  EXPECT_THAT(error_of([&] { schedule.build(); }),
              testing::HasSubstr("must name each of the 2 copies 2 times"));
}

}  // namespace
}  // namespace unlatch::sim
