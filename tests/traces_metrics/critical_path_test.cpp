// The critical path: which tasks the makespan consists of.
#include "traces/critical_path.h"

#include <gmock/gmock.h>

#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const TaskGraph& graph, const CriticalPath& path) {
  std::vector<std::string> names;
  for (const TaskId id : path.tasks) names.push_back(label(graph.task(id)));
  return names;
}

TEST(CriticalPath, IsTheWholeRunOfBackPropagation) {
  const StageCosts costs = costs_of({.update = "1", .transfer = "0.5"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2}, costs.links());
  const CriticalPath path = critical_path(graph, run(graph, costs));
  EXPECT_THAT(labels(graph, path),
              ElementsAre("0F0", "0SEND_F0", "1F0", "1B0", "1SEND_B0", "0B0", "0U0"));
  EXPECT_EQ(path.length, 7);
}

TEST(CriticalPath, PrefersTheSameLaneOnTies) {
  HandGraph hand({.stages = 2});
  const TaskId other = hand.add(Op::forward, 1, 0);
  hand.add(Op::forward, 0, 0);
  hand.add(Op::backward, 0, 0, {{other, EdgeKind::gradient}});
  const TaskGraph graph = hand.build();
  EXPECT_THAT(labels(graph, critical_path(graph, run(graph, unit_costs(2)))),
              ElementsAre("0F0", "0B0"));
}

TEST(CriticalPath, GoesThroughTheLongerOfForwardAndRecompute) {
  for (const bool long_recompute : {false, true}) {
    HandGraph hand({.stages = 1, .batches = 2});
    const TaskId first = hand.add(Op::forward, 0, 0);
    const TaskId f = hand.add(Op::forward, 0, 1);
    const TaskId r = hand.add(Op::recompute, 0, 0,
                              {{first, EdgeKind::local}, {f, EdgeKind::beside}}, Engine::recompute);
    hand.add(Op::backward, 0, 0, {{r, EdgeKind::local}});
    const TaskGraph graph = hand.build();
    const StageCosts costs = costs_of({.recompute = long_recompute ? "3" : "1"}, 1);
    EXPECT_EQ(labels(graph, critical_path(graph, run(graph, costs)))[1],
              long_recompute ? "0R0" : "0F1");
  }
}

TEST(CriticalPath, IsAsLongAsTheRunWhereNothingOverlaps) {
  const StageCosts costs =
      costs_of({.forward = "1,2,1.5,1", .update = "0.25", .transfer = "0.5"}, 4);
  for (const char* spec : {"bp", "gpipe", "1f1b", "ddg", "fr", "fdg", "fdg:form=queue"}) {
    const TaskGraph graph =
        graph_of(spec, {.stages = 4, .micro_batches = 3, .batches = 6}, costs.links());
    const Timeline timeline = run(graph, costs);
    nanoseconds sum{0};
    for (const TaskId id : critical_path(graph, timeline, 0).tasks) sum += timeline[id].length();
    EXPECT_EQ(sum, makespan(timeline)) << spec;
  }
}

TEST(CriticalPath, KeepsItsEndsWhereItIsTooLong) {
  HandGraph hand({.stages = 1});
  for (int i = 0; i < 12; ++i) hand.add(Op::forward, 0, i);
  const TaskGraph graph = hand.build();
  const CriticalPath path = critical_path(graph, run(graph, unit_costs(1)), 4);
  EXPECT_THAT(labels(graph, path), ElementsAre("0F0", "0F1", "0F10", "0F11"));
  EXPECT_EQ(path.length, 12);
}

TEST(CriticalPath, OfAnEmptyGraphIsEmpty) {
  const TaskGraph graph = HandGraph({.stages = 1}).build();
  EXPECT_EQ(critical_path(graph, {}).length, 0);
}

}  // namespace
}  // namespace unlatch::sim
