// Sensitivity: gains by hand, and what holds for every schedule: no gain beyond the prediction.
#include "sim/sensitivity.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "schedules/error.h"
#include "sim/straggler_costs.h"
#include "tests/sim/support.h"
#include "traces/critical_path.h"

namespace unlatch::sim {
namespace {

using testing::HasSubstr;

std::vector<Sensitivity> of(const TaskGraph& graph, const CostModel& costs) {
  return sensitivities(graph, costs, run(graph, costs));
}

const Sensitivity& find(const std::vector<Sensitivity>& all, Op op, int stage) {
  const auto found = std::ranges::find(all, Part{op, {stage}}, &Sensitivity::part);
  if (found == all.end()) throw std::out_of_range("no such part");
  return *found;
}

// BP runs everything one after the other: 1 + 2 + 2 + 4 + 2 messages of 0.5 + U of 1 on rank 0,
// which ends last.
TEST(Sensitivity, OfBackPropagationIsTheTimeOfEachPart) {
  const StageCosts costs =
      costs_of({.forward = "1,2", .backward = "2,4", .update = "1", .transfer = "0.5"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2}, costs.links());
  const auto all = of(graph, costs);
  const std::tuple<Op, int, double> gains[] = {
      {Op::forward, 0, 0.1},  {Op::forward, 1, 0.2},       {Op::backward, 0, 0.2},
      {Op::backward, 1, 0.4}, {Op::send_forward, 0, 0.05}, {Op::send_backward, 1, 0.05},
      {Op::update, 0, 0.1},   {Op::update, 1, 0}};
  ASSERT_EQ(all.size(), std::size(gains));
  for (const auto& [op, stage, gain] : gains) {
    const Sensitivity& one = find(all, op, stage);
    EXPECT_EQ(one.predicted, ms(gain)) << letter(op) << stage;
    EXPECT_EQ(one.gain, ms(gain)) << letter(op) << stage;
    EXPECT_EQ(one.on_path, ms(10 * gain)) << letter(op) << stage;
    EXPECT_EQ(one.tasks, gain == 0 ? 0 : 1) << letter(op) << stage;
    EXPECT_FALSE(one.moved);
  }
  EXPECT_EQ(all.front().part, (Part{Op::backward, {1}}));
}

// Two ranks that work apart, 10 and 9.5 long: the second is the longer one once the first is 5 %
// faster, so that 10 % gain 0.5 and not 1.
TEST(Sensitivity, SaysWhereThePathMoves) {
  HandGraph hand({.stages = 2});
  hand.add(Op::forward, 0, 0);
  hand.add(Op::forward, 1, 0);
  const TaskGraph graph = hand.build();
  const auto all = of(graph, costs_of({.forward = "10,9.5"}, 2));
  const Sensitivity& first = find(all, Op::forward, 0);
  EXPECT_EQ(first.predicted, ms(1));
  EXPECT_EQ(first.gain, ms(0.5));
  ASSERT_TRUE(first.moved);
  EXPECT_EQ(*first.moved, (Part{Op::forward, {1}}));
  EXPECT_EQ(find(all, Op::forward, 1).gain, ms(0));
}

// F of 4 beside R of 2 with half the overlap: 4 + 0.5 x 2 = 5, then B of 8 (see length_beside).
TEST(Sensitivity, CountsTheShorterOfForwardAndRecomputeByItsPart) {
  HandGraph hand({.stages = 1, .batches = 2});
  const TaskId f = hand.add(Op::forward, 0, 1);
  const TaskId r = hand.add(Op::recompute, 0, 0, {{f, EdgeKind::beside}}, Engine::recompute);
  hand.add(Op::backward, 0, 0, {{r, EdgeKind::local}});
  const TaskGraph graph = hand.build();
  const auto all = of(graph, costs_of({.forward = "4", .recompute = "2", .overlap = "0.5"}, 1));
  for (const auto& [op, gain] :
       {std::pair{Op::forward, 0.4}, {Op::recompute, 0.1}, {Op::backward, 0.8}}) {
    EXPECT_EQ(find(all, op, 0).predicted, ms(gain)) << letter(op);
    EXPECT_EQ(find(all, op, 0).gain, ms(gain)) << letter(op);
  }
}

// O21: with device 2 slower by 1.5, 1F1B takes 43.5 units, of which that device works 36: 1.5 of
// them while device 3 has the first micro-batch (3), which together with 2 before and 4 after
// makes 43.5.
TEST(Sensitivity, PointsAtTheSlowRank) {
  const StageCosts costs = unit_costs(4);
  const TaskGraph graph = graph_of("1f1b", {.stages = 4, .micro_batches = 8});
  const StragglerCosts slow(costs, graph, {.slow = {1, 1, 1.5, 1}}, 0);
  const auto all = of(graph, slow);
  EXPECT_EQ(all[0].part, (Part{Op::backward, {2}}));
  EXPECT_EQ(all[1].part, (Part{Op::forward, {2}}));
  EXPECT_EQ(all[0].on_path + all[1].on_path, ms(34.5));
}

TEST(Sensitivity, AddsUpToTheMakespanAndNeverGainsMoreThanPredicted) {
  const StageCosts costs =
      costs_of({.forward = "1,2,1.5,1", .update = "0.25", .transfer = "0.5", .overlap = "0.5"}, 4);
  for (const char* spec : {"bp", "gpipe", "1f1b", "zb-h1", "ddg", "fr", "fdg", "dsp"}) {
    const TaskGraph graph =
        graph_of(spec, {.stages = 4, .micro_batches = 3, .batches = 6}, costs.links());
    const Timeline timeline = run(graph, costs);
    nanoseconds on_path{0};
    for (const Sensitivity& one : sensitivities(graph, costs, timeline)) {
      on_path += one.on_path;
      EXPECT_GE(one.gain, nanoseconds{0}) << spec;
      EXPECT_LE(one.gain, one.predicted + nanoseconds(one.tasks)) << spec;
      EXPECT_EQ(one.moved.has_value(), one.gain < one.predicted - nanoseconds(one.tasks)) << spec;
    }
    EXPECT_EQ(on_path, makespan(timeline)) << spec;
  }
}

TEST(Sensitivity, OfPartsOffThePathIsNothingWhenRunAgainToo) {
  const TaskGraph graph = graph_of("1f1b", {.stages = 3, .micro_batches = 5});
  const StageCosts costs = costs_of({.forward = "1,3,1", .update = "0.5"}, 3);
  const auto all = of(graph, costs);
  for (const int stage : {1, 2}) EXPECT_EQ(find(all, Op::update, stage).tasks, 0) << stage;
  const StageCosts faster = costs_of({.forward = "1,3,1", .update = "0.5,0.45,0.45"}, 3);
  EXPECT_EQ(makespan(run(graph, faster)), makespan(run(graph, costs)));
}

class SharedLinks final : public Traffic {
 public:
  const std::vector<double>& links() const override { return links_; }
  std::span<const Transfer> transfers(const Task&) const override { return {}; }

 private:
  std::vector<double> links_;
};

TEST(Sensitivity, RefusesMessagesThatShareLinks) {
  const StageCosts costs(stage_times({}, 2), std::make_shared<SharedLinks>());
  const TaskGraph graph = graph_of("bp", {.stages = 2});
  EXPECT_THAT(error_of([&] { of(graph, costs); }), HasSubstr("--contention"));
}

}  // namespace
}  // namespace unlatch::sim
