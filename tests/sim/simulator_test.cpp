// The simulator's loop: waits, lanes, links, F beside R, determinism.
#include "sim/simulator.h"

#include <gmock/gmock.h>

#include <limits>

#include "schedules/error.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

Span span_ms(double start, double end) { return {ms(start), ms(end)}; }

TEST(Simulator, StartsATaskWhenItsLaneIsFreeAndItsInputsHaveArrived) {
  HandGraph hand({.stages = 2});
  const TaskId f0 = hand.add(Op::forward, 0, 0);
  const TaskId f1 = hand.add(Op::forward, 0, 1);
  const TaskId g0 = hand.add(Op::forward, 1, 0, {{f0, EdgeKind::activation}});
  const TaskId b0 = hand.add(Op::backward, 1, 0);
  const TaskId g1 = hand.add(Op::forward, 1, 1, {{f1, EdgeKind::activation}});
  const Timeline timeline = run(hand.build(), unit_costs(2));
  EXPECT_EQ(timeline[f0], span_ms(0, 1));
  EXPECT_EQ(timeline[f1], span_ms(1, 2));
  EXPECT_EQ(timeline[g0], span_ms(1, 2));
  EXPECT_EQ(timeline[b0], span_ms(2, 4));
  EXPECT_EQ(timeline[g1], span_ms(4, 5));
  EXPECT_EQ(makespan(timeline), ms(5));
}

TEST(Simulator, LeavesAnEmptyGraphAtZero) {
  EXPECT_EQ(makespan(run(HandGraph({.stages = 1}).build(), unit_costs(1))), ms(0));
}

TEST(Simulator, SendsTheMessagesOfABoundaryOneAfterTheOther) {
  const StageCosts costs = costs_of({.transfer = "1.5"}, 2);
  const TaskGraph graph =
      graph_of("gpipe:recompute=never", {.stages = 2, .micro_batches = 2}, costs.links());
  const Timeline timeline = run(graph, costs);
  std::vector<Span> sends;
  for (const TaskId id : graph.ids()) {
    if (graph.task(id).op == Op::send_forward) sends.push_back(timeline[id]);
  }
  // 0F0 ends at 1 and 0F1 at 2, but the link is taken until 2.5.
  EXPECT_THAT(sends, testing::ElementsAre(span_ms(1, 2.5), span_ms(2.5, 4)));
}

struct Beside {
  const char* forward;
  const char* recompute;
  const char* overlap;
  Span forward_span;
  Span recompute_span;
};

class ForwardBesideRecompute : public testing::TestWithParam<Beside> {};

TEST_P(ForwardBesideRecompute, TakesTheContractsTime) {
  HandGraph hand({.stages = 1, .batches = 2});
  const TaskId first = hand.add(Op::backward, 0, 9);  // 2 ms, so that both start late
  const TaskId f = hand.add(Op::forward, 0, 1);
  const TaskId r = hand.add(Op::recompute, 0, 0,
                            {{first, EdgeKind::version}, {f, EdgeKind::beside}}, Engine::recompute);
  const TaskId b = hand.add(Op::backward, 0, 0, {{r, EdgeKind::local}});
  const Beside& given = GetParam();
  const Timeline timeline = run(hand.build(), costs_of({.forward = given.forward,
                                                        .backward = "2",
                                                        .recompute = given.recompute,
                                                        .overlap = given.overlap},
                                                       1));
  EXPECT_EQ(timeline[f], given.forward_span);
  EXPECT_EQ(timeline[r], given.recompute_span);
  EXPECT_EQ(timeline[b].start, std::max(timeline[f].end, timeline[r].end));
}

INSTANTIATE_TEST_SUITE_P(All, ForwardBesideRecompute,
                         testing::Values(Beside{"1", "1", "1", span_ms(2, 3), span_ms(2, 3)},
                                         Beside{"1", "1", "0", span_ms(2, 3), span_ms(3, 4)},
                                         Beside{"1", "1", "0.25", span_ms(2, 3),
                                                span_ms(2.75, 3.75)},
                                         Beside{"1", "3", "1", span_ms(2, 3), span_ms(2, 5)},
                                         Beside{"1", "3", "0.5", span_ms(2, 3), span_ms(2.5, 5.5)},
                                         Beside{"3", "1", "1", span_ms(2, 5), span_ms(4, 5)},
                                         Beside{"3", "1", "0", span_ms(2, 5), span_ms(5, 6)},
                                         Beside{"0", "2", "0", span_ms(2, 2), span_ms(2, 4)}));

TEST(Simulator, RunsRecomputeAloneForItsOwnCost) {
  HandGraph hand({.stages = 1});
  const TaskId r = hand.add(Op::recompute, 0, 0, {}, Engine::recompute);
  const Timeline timeline = run(hand.build(), costs_of({.recompute = "3", .overlap = "0"}, 1));
  EXPECT_EQ(timeline[r], span_ms(0, 3));
}

TEST(Simulator, RefusesARunThatDoesNotFitTheClock) {
  StageTimes times = stage_times({}, 1);
  times.forward[0] = nanoseconds(std::numeric_limits<std::int64_t>::max() / 2 + 1);
  HandGraph hand({.stages = 1});
  hand.add(Op::forward, 0, 0);
  hand.add(Op::forward, 0, 1);
  EXPECT_THROW(run(hand.build(), StageCosts(times)), Error);
}

/// A model that gives no table.
class ByTask final : public CostModel {
 public:
  explicit ByTask(const StageCosts& costs) : costs_(costs) {}
  nanoseconds duration(const Task& task) const override { return costs_.duration(task); }
  double overlap(Stage k) const override { return costs_.overlap(k); }

 private:
  const StageCosts& costs_;
};

TEST(Simulator, GivesTheSameTimelineWithAndWithoutATableAndEveryTime) {
  const StageCosts costs = costs_of(
      {.forward = "1,2,1.5,1", .update = "0.125", .transfer = "0.25", .overlap = "0.5"}, 4);
  for (const char* spec : {"bp", "gpipe", "1f1b", "ddg", "fr", "fdg", "dsp", "dsp:form=lockstep"}) {
    const TaskGraph graph =
        graph_of(spec, {.stages = 4, .micro_batches = 3, .batches = 5}, costs.links());
    const Timeline timeline = run(graph, costs);
    EXPECT_EQ(timeline, run(graph, ByTask(costs))) << spec;
    EXPECT_EQ(timeline, run(graph, costs)) << spec;
  }
}

TEST(Simulator, KeepsTimesOnAGridExact) {  // case O53
  const StageCosts costs = costs_of({.forward = "0.1", .backward = "0.2"}, 8);
  const TaskGraph graph = graph_of("1f1b", {.stages = 8, .micro_batches = 32});
  EXPECT_EQ(makespan(run(graph, costs)), nanoseconds(11'700'000));
  EXPECT_EQ(makespan(run(graph, unit_costs(8))), ms(117));
}

TEST(Simulator, ChangesNoOtherTimeForATaskOfNoLength) {  // case O53
  const auto timeline_of = [](bool extra) {
    HandGraph hand({.stages = 2});
    const TaskId f = hand.add(Op::forward, 0, 0);
    if (extra) hand.add(Op::update, 0, 0);
    const TaskId g = hand.add(Op::forward, 1, 0, {{f, EdgeKind::activation}});
    const TaskId b = hand.add(Op::backward, 1, 0);
    const TaskId last = hand.add(Op::backward, 0, 0, {{b, EdgeKind::gradient}});
    const Timeline timeline = run(hand.build(), unit_costs(2));
    return std::vector<Span>{timeline[f], timeline[g], timeline[b], timeline[last]};
  };
  EXPECT_EQ(timeline_of(false), timeline_of(true));
}

// F0 F1 B0 B1 on rank 1 of three: its gradient of micro-batch 0 is done at 22, its second
// activation, which left at 16, is on its way until 23.
TEST(Simulator, SendsFromOneQueueOrOneABoundaryAndDirection) {
  const Shape shape{.stages = 3, .micro_batches = 2};
  const StageCosts costs =
      costs_of({.activation_transfer = "7", .gradient_transfer = "1"}, shape.stages);
  const auto span_of = [&](bool one_queue, std::string_view name) {
    Links links = costs.links();
    links.one_queue_a_rank = one_queue;
    const TaskGraph graph = graph_of("1f1b", shape, links);
    const Timeline timeline = run(graph, costs);
    for (const TaskId id : graph.ids()) {
      if (label(graph.task(id)) == name) return timeline[id];
    }
    return Span{};
  };
  for (const bool one : {false, true}) {
    EXPECT_EQ(span_of(one, "1SEND_F1"), (Span{ms(16), ms(23)}));
    EXPECT_EQ(span_of(one, "1SEND_B0"), (one ? Span{ms(23), ms(24)} : Span{ms(22), ms(23)}));
    EXPECT_EQ(span_of(one, "0B0"), (one ? Span{ms(24), ms(26)} : Span{ms(23), ms(25)}));
    EXPECT_EQ(span_of(one, "0B1"), (Span{ms(30), ms(32)}));
  }
}

// Transfers of 5 ms each from one queue on two ranks: what left later arrives later, whatever its
// direction.
TEST(Simulator, KeepsTheProgramsOrderInOneQueue) {
  const Shape shape{.stages = 4, .micro_batches = 6};
  const StageCosts costs = costs_of({.transfer = "5"}, shape.stages);
  Links links = costs.links();
  links.one_queue_a_rank = true;
  for (const char* spec : {"1f1b", "gpipe", "zb-h1"}) {
    const TaskGraph graph = graph_of(spec, shape, links);
    const Timeline timeline = run(graph, costs);
    std::vector<nanoseconds> producer(4), end(4);
    for (const TaskId id : graph.ids()) {
      const Task& task = graph.task(id);
      if (!is_send(task.op)) continue;
      EXPECT_EQ(graph.lane(task).engine, Engine::send);
      const auto r = static_cast<std::size_t>(graph.rank(task).value);
      for (const Edge edge : graph.edges_into(id)) {
        if (edge.kind() != EdgeKind::local) continue;
        EXPECT_GE(timeline[edge.from()].end, producer[r]);
        producer[r] = timeline[edge.from()].end;
      }
      EXPECT_EQ(timeline[id].start, std::max(end[r], producer[r])) << spec;
      end[r] = timeline[id].end;
    }
  }
}

}  // namespace
}  // namespace unlatch::sim
