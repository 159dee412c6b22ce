// The simulator of fewer workers than lanes: worked examples, and what holds for every schedule.
#include "sim/shared_workers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "tests/sim/support.h"
#include "tests/support/small_graphs.h"

namespace unlatch::sim {
namespace {

/// F=1, B=2, R=1 in milliseconds.
StageCosts unit_costs_on(int workers, int stages, const char* overlap = "0") {
  StageTimes times = stage_times({.overlap = overlap}, stages);
  times.workers = workers;
  return StageCosts(times);
}

double period_on(int workers, std::string_view spec, const Shape& shape,
                 const char* overlap = "0") {
  return period_ms(spec, shape, unit_costs_on(workers, shape.stages, overlap));
}

TEST(SharedWorkers, OneAtATimeIsAllThatBackPropagationNeeds) {
  for (const int stages : {2, 3, 4, 5}) {
    for (int workers = 1; workers <= stages; ++workers) {
      EXPECT_DOUBLE_EQ(period_on(workers, "bp", {.stages = stages}), 3 * stages);
    }
  }
}

/// A worker runs F and B of one rank in a row, so three ranks on two workers take two rounds.
TEST(SharedWorkers, LockStepTakesAsManyRoundsAsAWorkerHasRanks) {
  constexpr double help_comes_late = 0.05;  // by 20 us where a worker helps
  const auto expect = [&](int workers, const char* spec, int stages, double period) {
    EXPECT_NEAR(period_on(workers, spec, {.stages = stages}), period, help_comes_late)
        << spec << " K=" << stages << " on " << workers;
  };
  EXPECT_DOUBLE_EQ(period_on(2, "fdg", {.stages = 2}), 3);
  expect(2, "fdg", 3, 6);
  expect(2, "fdg", 4, 6);
  expect(3, "fdg", 4, 6);
  expect(2, "fdg", 5, 9);
  // The forwards follow each other anyway; then B of three or four ranks on two workers.
  expect(2, "ddg", 3, 3 + 2 * 2);
  expect(2, "ddg", 4, 4 + 2 * 2);
}

/// Rank 0 has two lanes: with two workers R follows F, as the overlap says.
TEST(SharedWorkers, RecomputeFollowsItsForward) {
  EXPECT_DOUBLE_EQ(period_on(2, "dsp", {.stages = 2}), 4);
  EXPECT_DOUBLE_EQ(period_on(2, "dsp", {.stages = 2}, "0.5"), 3.5);
  EXPECT_DOUBLE_EQ(period_on(2, "dsp", {.stages = 2}, "1"), 3);
  EXPECT_DOUBLE_EQ(period_on(3, "dsp", {.stages = 2}, "1"), 3);  // each lane has its own
  EXPECT_DOUBLE_EQ(period_on(1, "dsp", {.stages = 2}), 7);
}

/// Rank 0 works for 1 ms, then waits; its worker helps at rank 2 or, after 20 us, at rank 1.
TEST(SharedWorkers, HelpAfterTwentyMicroseconds) {
  HandGraph hand({.stages = 4});
  hand.add(Op::forward, 0, 0);
  for (int i = 0; i < 3; ++i) hand.add(Op::forward, 1, i);
  hand.add(Op::forward, 3, 0);
  const TaskGraph graph = hand.build();
  const Timeline timeline = run(graph, unit_costs_on(2, 4));
  EXPECT_EQ(timeline[TaskId{0}].start, ms(0));
  EXPECT_EQ(timeline[TaskId{1}].start, ms(0));
  EXPECT_EQ(timeline[TaskId{3}].end, ms(3));                                    // held by worker 1
  EXPECT_EQ(timeline[TaskId{4}].start, ms(1) + std::chrono::microseconds(20));  // its rank 3 is not
}

/// With random times of up to 5 ms; transfers where the copies allow them.
StageCosts random_costs(const TaskGraph& graph, int workers, std::mt19937& random) {
  const int stages = graph.shape().stages_a_copy();
  const auto list = [&] {
    std::vector<int> entries(stages);
    for (int& entry : entries) entry = static_cast<int>(random() % 5);
    return fmt::format("{}", fmt::join(entries, ","));
  };
  StageTimes times = stage_times({.forward = list(),
                                  .input_grad = list(),
                                  .weight_grad = list(),
                                  .recompute = list(),
                                  .update = list(),
                                  .overlap = "0"},
                                 stages);
  if (stages > 1 && random() % 2 == 0) {
    times.activation_transfer.assign(stages - 1, ms(random() % 3));
  }
  times.workers = workers;
  return StageCosts(times.for_copies(graph.shape().copies));
}

/// Tasks of compute lanes that run at once at most; what ends makes room for what begins.
int most_at_once(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<std::pair<nanoseconds, int>> changes;
  for (const TaskId id : graph.ids()) {
    if (!is_compute(graph.task(id).op) || timeline[id].length().count() == 0) continue;
    changes.emplace_back(timeline[id].start, 1);
    changes.emplace_back(timeline[id].end, -1);
  }
  std::ranges::sort(changes);
  int running = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, running += change);
  return most;
}

nanoseconds work_of(const TaskGraph& graph, const Timeline& timeline) {
  nanoseconds work{0};
  for (const TaskId id : graph.ids()) {
    if (is_compute(graph.task(id).op)) work += timeline[id].length();
  }
  return work;
}

void expect_order_kept(const TaskGraph& graph, const Timeline& timeline) {
  for (const TaskId id : graph.ids()) {
    for (const Edge edge : graph.edges_into(id)) {
      const Span& from = timeline[edge.from()];
      ASSERT_LE(edge.kind() == EdgeKind::beside ? from.start : from.end, timeline[id].start)
          << label(graph.task(id));
    }
  }
}

TEST(SharedWorkers, KeepEveryScheduleInOrderAndNoMoreTasksThanWorkers) {
  std::mt19937 random(11);
  int shared = 0;
  for (const TaskGraph& plain : testing_support::small_graphs()) {
    SCOPED_TRACE(testing_support::describe(plain));
    for (const int workers : {1, 2, 3}) {
      const StageCosts costs = random_costs(plain, workers, random);
      const TaskGraph graph = with_transfers(plain, costs.links());
      if (!shares_workers(graph, costs)) continue;
      ++shared;
      const Timeline timeline = run(graph, costs);
      expect_order_kept(graph, timeline);
      ASSERT_LE(most_at_once(graph, timeline), workers);
      ASSERT_EQ(run(graph, costs).spans, timeline.spans);
      // One worker idles only for messages.
      if (workers == 1 && plain.size() == graph.size()) {
        ASSERT_EQ(makespan(timeline), work_of(graph, timeline));
      }
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(shared, 1000);
}

TEST(SharedWorkers, EnoughOfThemAreAsOneForEveryLane) {
  for (const TaskGraph& graph : testing_support::small_graphs()) {
    StageTimes times = stage_times({}, graph.shape().stages_a_copy());
    const StageCosts free(times.for_copies(graph.shape().copies));
    times.workers = 2 * graph.ranks();
    const StageCosts enough(times.for_copies(graph.shape().copies));
    ASSERT_EQ(run(graph, enough).spans, run(graph, free).spans) << graph.schedule();
  }
}

}  // namespace
}  // namespace unlatch::sim
