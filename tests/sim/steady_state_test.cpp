// Steady state: batch ends, cycles, the means of random runs, speed-up and utilization.
#include "sim/steady_state.h"

#include <gmock/gmock.h>

#include "sim/straggler_costs.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::ElementsAre;

TEST(SteadyState, EndsABatchWithItsLastUpdate) {
  const StageCosts costs = costs_of({.update = "0.5"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2, .batches = 2});
  // 0F 0..1, 1F 1..2, 1B 2..4 (1U ends 4.5), 0B 4..6, 0U 6..6.5
  EXPECT_THAT(batch_ends(graph, run(graph, costs)), ElementsAre(ms(6.5), ms(13)));
}

TEST(SteadyState, EndsABatchWithoutUpdateWithItsLastBackward) {
  HandGraph hand({.stages = 1, .batches = 2});
  hand.add(Op::forward, 0, 0);
  hand.add(Op::backward, 0, 0);
  hand.add(Op::forward, 0, 1);
  hand.add(Op::backward, 0, 1);
  hand.add(Op::update, 0, 1);
  const TaskGraph graph = hand.build();
  EXPECT_THAT(batch_ends(graph, run(graph, costs_of({.update = "1"}, 1))),
              ElementsAre(ms(3), ms(7)));
}

TEST(SteadyState, FindsACycleOfSeveralBatches) {
  // K=4, c=2: decoupled.md 12.2 gives 24/7, which no cycle of fewer than 7 batches can have.
  const StageCosts costs = costs_of({.transfer = "2"}, 4);
  const SteadyState steady =
      steady_state(any_batches("dsp:queues=unbounded", {.stages = 4}, costs.links()), costs);
  EXPECT_TRUE(steady.exact);
  EXPECT_EQ(steady.cycle % 7, 0);
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, 24e6 / 7);
}

TEST(SteadyState, IsNotTakenInByBatchesThatOnlyLookAlike) {
  // Each batch passes four ranks, 1 ms each; rank 0 starts batch b when b-3 has passed all four.
  // The first three batches look alike, yet every third has to wait: 4 ms for 3 batches.
  const auto graph_of_batches = [](int batches) {
    HandGraph hand({.stages = 4, .batches = batches});
    std::vector<TaskId> passed;
    for (int b = 0; b < batches; ++b) {
      std::vector<Edge> place;
      if (b >= 3) place = {{passed[b - 3], EdgeKind::queue}};
      TaskId last = hand.add(Op::backward, 0, b, place);
      for (int k = 1; k < 4; ++k) {
        last = hand.add(Op::backward, k, b, {{last, EdgeKind::activation}});
      }
      passed.push_back(last);
    }
    return hand.build();
  };
  const SteadyState steady = steady_state(graph_of_batches, costs_of({.backward = "1"}, 4));
  EXPECT_TRUE(steady.exact);
  EXPECT_EQ(steady.cycle, 3);
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, 4e6 / 3);
}

TEST(SteadyState, NeedsFewBatchesOfALargeSynchronousSchedule) {
  const StageCosts costs = unit_costs(32);
  const SteadyState steady =
      steady_state(any_batches("1f1b", {.stages = 32, .micro_batches = 512}), costs);
  EXPECT_TRUE(steady.exact);
  EXPECT_EQ(steady.batches, 3);
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, (512 + 31) * 3e6);
}

// Unit costs: every rank is busy all the time. The longest waits span 400 batches, so that a run of
// a million tasks has no steady part.
TEST(SteadyState, FindsThePeriodOfADeepPipeline) {
  const StageCosts costs = unit_costs(200);
  const SteadyState steady = steady_state(any_batches("dsp", {.stages = 200}), costs);
  EXPECT_TRUE(steady.exact);
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, 3e6);
}

// A million batches between F and B of stage 0, so no run is long enough: the slow rank's 6 ms.
TEST(SteadyState, ReportsTheBusiestLaneWhereNoRunIsLongEnough) {
  const StageCosts costs = costs_of({.forward = "1,2,1,1", .backward = "2,4,2,2"}, 4);
  const SteadyState steady =
      steady_state(any_batches("dsp:staleness=1000000/600000/300000/0", {.stages = 4}), costs);
  EXPECT_FALSE(steady.exact);
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, 6e6);
}

TEST(SteadyState, ReportsAMeanWhenNothingRepeatsInTime) {
  // Stage 1 is slower by 1 ns of 3 ms: the lead of stage 0 is used up after about a million
  // batches.
  const StageCosts costs = costs_of({.backward = "2,2.000001,2"}, 3);
  const SteadyState steady =
      steady_state(any_batches("dsp:queues=unbounded", {.stages = 3}), costs);
  EXPECT_FALSE(steady.exact);
  EXPECT_NEAR(steady.batch_period_ns, 3e6, 100);
}

TEST(SteadyState, ReadsOneRunThatRepeats) {
  const TaskGraph graph = graph_of("dsp", {.stages = 3, .batches = 40});
  const SteadyState steady = steady_state_of(graph, run(graph, unit_costs(3)));
  EXPECT_TRUE(steady.exact);
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, 3e6);
  const TaskGraph one = graph_of("bp", {.stages = 3, .batches = 1});
  EXPECT_DOUBLE_EQ(steady_state_of(one, run(one, unit_costs(3))).batch_period_ns, 9e6);
}

TEST(SteadyState, TakesTheMeanOfARandomRunBetweenStartAndDrain) {
  HandGraph hand({.stages = 1, .batches = 90});
  for (int b = 0; b < 90; ++b) hand.add(Op::backward, 0, b, {}, Engine::compute, b);
  const TaskGraph graph = hand.build();
  const StageCosts costs = unit_costs(1);
  const Timeline timeline = run(
      graph, StragglerCosts(costs, graph,
                            {.stragglers = {Straggler::parse("lognormal:sigma=1")}, .seed = 7}, 0));
  const SteadyState steady = mean_period(graph, timeline);
  EXPECT_FALSE(steady.exact);
  const nanoseconds between = timeline[TaskId{89}].end - timeline[TaskId{9}].end;
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, between.count() / 80.0);
}

TEST(SteadyState, LeavesTheDrainOutOfTheMean) {
  // DSP K=3: rank 0 is 4 batches ahead, so that the last batch before the drain is N-1-4.
  const TaskGraph graph = graph_of("dsp", {.stages = 3, .batches = 30});
  const StageCosts costs = unit_costs(3);
  const Timeline timeline = run(graph, costs);
  const std::vector<nanoseconds> ends = batch_ends(graph, timeline);
  EXPECT_DOUBLE_EQ(mean_period(graph, timeline).batch_period_ns,
                   (ends[25] - ends[3]).count() / 22.0);
}

/// Without drain the last batches lack backwards on some stages, and end early.
TEST(SteadyState, LeavesOutWhatIsNotDrained) {
  for (const char* spec : {"fdg:order=bf", "fdg:form=queue,order=bf", "adl:order=bf", "fdg", "ddg",
                           "dsp", "pipedream", "1f1b"}) {
    const Shape shape{.stages = 4, .drain = false};
    const StageCosts costs = unit_costs(4);
    const SteadyState steady = steady_state(any_batches(spec, shape), costs);
    EXPECT_TRUE(steady.exact) << spec;
    Shape drained = shape;
    drained.drain = true;
    EXPECT_EQ(steady.batch_period_ns,
              steady_state(any_batches(spec, drained), costs).batch_period_ns)
        << spec;
  }
}

TEST(SteadyState, ComparesWithBackPropagationOnTheSameRanks) {
  const StageCosts costs = costs_of({.transfer = "0.5"}, 3);
  const TaskGraph graph = graph_of("gpipe", {.stages = 3, .micro_batches = 4});
  const std::vector<double> slow{1, 2, 1};
  const BatchWork work = batch_work(graph, costs.times(), slow);
  EXPECT_EQ(work.compute, ms(4 * (3 + 6 + 3)));
  EXPECT_EQ(work.transfers, ms(4 * 2));
  const SteadyState steady{.batch_period_ns = 28e6};
  EXPECT_DOUBLE_EQ(*work.speedup_over_bp(steady), 2.0);
  EXPECT_DOUBLE_EQ(*work.utilization(steady), 48.0 / 84);
  EXPECT_FALSE(work.speedup_over_bp({}).has_value());
}

}  // namespace
}  // namespace unlatch::sim
