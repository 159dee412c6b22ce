// Metrics: the contract's example, acceptance cases O14 and O21, and runs of no length.
#include "traces/metrics.h"

#include <gmock/gmock.h>

#include "sim/straggler_costs.h"
#include "tests/sim/support.h"
#include "traces/memory.h"

namespace unlatch::sim {
namespace {

using testing::ElementsAre;

Metrics simulated(std::string_view spec, const Shape& shape, const CostModel& costs,
                  const Links& links = {}) {
  const TaskGraph graph = graph_of(spec, shape, links);
  return metrics(graph, run(graph, costs));
}

TEST(Metrics, AreThoseOfTheContractsExample) {
  const Metrics all = simulated("dsp", {.stages = 3, .batches = 64}, unit_costs(3));
  EXPECT_EQ(all.makespan, ms(198));
  EXPECT_NEAR(*all.bubble_ratio, 0.020202, 1e-6);
  EXPECT_EQ(all.longest_span, ms(198));
  EXPECT_NEAR(*all.span_bubble_ratio, 0.010101, 1e-6);
  EXPECT_EQ(all.bottleneck, Rank{0});
  const RankMetrics& rank = all.ranks[0];
  EXPECT_EQ(rank.busy, ms(196));
  EXPECT_EQ(rank.recompute, ms(64));
  EXPECT_EQ(rank.idle, ms(2));
  EXPECT_NEAR(*rank.utilization, 0.969697, 1e-6);
  IdleCauses causes;
  causes.backward_lock = ms(2);
  EXPECT_EQ(rank.idle_by_cause, causes);
  EXPECT_EQ(all.stages[0].forward_staleness, 4);
  EXPECT_EQ(all.stages[0].weight_staleness, 0);
  EXPECT_EQ(all.stages[0].updates, 64);
  EXPECT_EQ(all.transfers.count, 256);
  EXPECT_EQ(all.transfers.bytes, 0);
}

TEST(Metrics, GiveTheContractsSteadyStateAndMemoryOfTheExample) {
  const StageCosts costs = unit_costs(3);
  const TaskGraph graph = graph_of("dsp", {.stages = 3, .batches = 64});
  const SteadyState steady = steady_state(any_batches("dsp", {.stages = 3}), costs);
  EXPECT_DOUBLE_EQ(steady.batch_period_ns, 3e6);
  const BatchWork work = batch_work(graph, costs.times(), std::vector<double>{1, 1, 1});
  EXPECT_DOUBLE_EQ(*work.speedup_over_bp(steady), 3);
  EXPECT_DOUBLE_EQ(*work.utilization(steady), 1);
  const RankMemory rank = memory(graph, run(graph, costs), {})[0];
  EXPECT_EQ(rank.peak_activations, 1);
  EXPECT_EQ(rank.peak_inputs, 5);
  EXPECT_EQ(rank.peak_weight_versions, 1);
  EXPECT_EQ(rank.peak.bytes, 0);
}

TEST(Metrics, GrowWithThePipelineSize) {  // case O14
  struct Row {
    int ranks;
    double makespan, bubble;
  };
  for (const Row& row :
       {Row{1, 192, 0}, Row{2, 108, 1 / 9.0}, Row{4, 66, 3 / 11.0}, Row{8, 45, 7 / 15.0}}) {
    const StageCosts costs = costs_of({.forward = std::to_string(8 / row.ranks)}, row.ranks);
    const Metrics all = simulated("1f1b", {.stages = row.ranks, .micro_batches = 8}, costs);
    EXPECT_EQ(all.makespan, ms(row.makespan)) << row.ranks;
    EXPECT_DOUBLE_EQ(*all.bubble_ratio, row.bubble) << row.ranks;
  }
}

TEST(Metrics, NameTheSlowDevice) {  // case O21
  struct Row {
    const char* spec;
    double factor, makespan;
  };
  const Shape shape{.stages = 4, .micro_batches = 8};
  const StageCosts costs = unit_costs(4);
  for (const Row& row : {Row{"1f1b", 1, 33}, Row{"gpipe:recompute=never", 1, 33},
                         Row{"1f1b", 1.5, 43.5}, Row{"gpipe:recompute=never", 1.5, 45},
                         Row{"1f1b", 2, 55}, Row{"gpipe:recompute=never", 2, 57}}) {
    const TaskGraph graph = graph_of(row.spec, shape);
    const StragglerCosts slow(costs, graph, {.slow = {1, 1, row.factor, 1}}, 0);
    EXPECT_EQ(makespan(run(graph, slow)), ms(row.makespan)) << row.spec << row.factor;
  }
  const TaskGraph graph = graph_of("1f1b", shape);
  const Metrics all =
      metrics(graph, run(graph, StragglerCosts(costs, graph, {.slow = {1, 1, 1.5, 1}}, 0)));
  EXPECT_EQ(all.bottleneck, Rank{2});
  EXPECT_EQ(all.ranks[2].busy, ms(36));
  std::vector<nanoseconds> idle;
  for (const RankMetrics& rank : all.ranks) idle.push_back(rank.idle);
  EXPECT_THAT(idle, ElementsAre(ms(19.5), ms(19.5), ms(7.5), ms(19.5)));
}

TEST(Metrics, CountRecomputeBesideAForwardOnce) {
  // Two F of 1 ms, the second with an R of 3 ms beside it: busy 0..4.
  HandGraph hand({.stages = 1, .batches = 2});
  hand.add(Op::forward, 0, 0);
  const TaskId f = hand.add(Op::forward, 0, 1);
  hand.add(Op::recompute, 0, 0, {{f, EdgeKind::beside}}, Engine::recompute);
  const TaskGraph graph = hand.build();
  const Metrics all = metrics(graph, run(graph, costs_of({.recompute = "3"}, 1)));
  EXPECT_EQ(all.ranks[0].busy, ms(4));
  EXPECT_EQ(all.ranks[0].recompute, ms(3));
  EXPECT_DOUBLE_EQ(*all.ranks[0].utilization, 0.5);
  EXPECT_EQ(all.ranks[0].idle, ms(0));
}

TEST(Metrics, LeaveRatiosOfARunWithoutLengthEmpty) {
  const StageCosts costs = costs_of({.forward = "0"}, 2);
  const Metrics all = simulated("bp", {.stages = 2}, costs);
  EXPECT_EQ(all.makespan, ms(0));
  EXPECT_FALSE(all.bubble_ratio.has_value());
  EXPECT_FALSE(all.span_bubble_ratio.has_value());
  EXPECT_FALSE(all.ranks[0].utilization.has_value());
}

TEST(Metrics, CountATransferOnceWithItsLinkOrWithout) {
  const StageCosts costs = costs_of({.transfer = "0.5"}, 3);
  for (const char* spec :
       {"bp", "ddg", "fr", "fdg", "fdg:form=queue", "dsp", "dsp:form=lockstep"}) {
    for (const Links& links : {Links{}, costs.links()}) {
      const TaskGraph graph = graph_of(spec, {.stages = 3, .batches = 10}, links);
      const Metrics all = metrics(graph, run(graph, costs), {1000, 100, 10});
      EXPECT_EQ(all.transfers.count, 2 * 2 * 10) << spec;
      EXPECT_EQ(all.transfers.bytes, 2 * 10 * (100 + 10)) << spec;
    }
  }
}

TEST(Metrics, CountNoMessageForARecomputeThatWaitsWithItsForward) {
  HandGraph hand({.stages = 2, .batches = 2});
  const TaskId first = hand.add(Op::forward, 0, 0);
  const TaskId second = hand.add(Op::forward, 0, 1);
  hand.add(Op::forward, 1, 0, {{first, EdgeKind::activation}});
  const TaskId f = hand.add(Op::forward, 1, 1, {{second, EdgeKind::activation}});
  hand.add(Op::recompute, 1, 0, {{second, EdgeKind::activation}, {f, EdgeKind::beside}},
           Engine::recompute);
  const TaskGraph graph = hand.build();
  EXPECT_EQ(metrics(graph, run(graph, unit_costs(2))).transfers.count, 2);
}

TEST(Metrics, BreakIdleTimeUpWithoutRest) {
  for (const char* transfer : {"0", "0.75"}) {
    const StageCosts costs =
        costs_of({.forward = "1,2,1.25,1", .update = "0.125", .transfer = transfer}, 4);
    for (const char* spec : {"bp", "gpipe", "1f1b", "ddg", "ddg:form=mailbox", "fr", "fdg",
                             "fdg:form=queue,order=bf", "dsp", "dsp:form=lockstep"}) {
      const Metrics all =
          simulated(spec, {.stages = 4, .micro_batches = 3, .batches = 9}, costs, costs.links());
      for (const RankMetrics& rank : all.ranks) {
        EXPECT_EQ(rank.idle_by_cause.total(), rank.idle) << spec;
        EXPECT_EQ(rank.busy + rank.idle, all.makespan) << spec;
      }
    }
  }
}

}  // namespace
}  // namespace unlatch::sim
