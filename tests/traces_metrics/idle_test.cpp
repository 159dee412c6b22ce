// Idle time by cause: one graph by hand for each cause, and the forms of the real schedules.
#include "traces/idle.h"

#include <gmock/gmock.h>

#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

IdleCauses causes_of(const TaskGraph& graph, Rank rank, const StageCosts& costs) {
  return idle_by_cause(graph, run(graph, costs))[rank.value];
}

void add_transfer_ends(IdleCauses& causes, double start, double end) {
  causes.start = ms(start);
  causes.end = ms(end);
}

TEST(Idle, WaitsForActivationsAreTheForwardLock) {
  HandGraph hand({.stages = 2});
  const TaskId f0 = hand.add(Op::forward, 0, 0);
  hand.add(Op::backward, 0, 9);
  const TaskId f1 = hand.add(Op::forward, 0, 1);              // 3..4
  hand.add(Op::forward, 1, 0, {{f0, EdgeKind::activation}});  // 1..2
  hand.add(Op::forward, 1, 1, {{f1, EdgeKind::activation}});  // 4..5
  IdleCauses expected;
  add_transfer_ends(expected, 1, 0);
  expected.forward_lock = ms(2);
  EXPECT_EQ(causes_of(hand.build(), Rank{1}, unit_costs(2)), expected);
}

TEST(Idle, WaitsForGradientsAreTheBackwardLock) {
  const TaskGraph graph = graph_of("bp", {.stages = 2});  // 0F 0..1, 1F 1..2, 1B 2..4, 0B 4..6
  IdleCauses first, second;
  first.backward_lock = ms(3);
  EXPECT_EQ(causes_of(graph, Rank{0}, unit_costs(2)), first);
  add_transfer_ends(second, 1, 2);
  EXPECT_EQ(causes_of(graph, Rank{1}, unit_costs(2)), second);
}

TEST(Idle, WaitsForAFreeQueuePlaceAreSeenThroughThePush) {
  HandGraph hand({.stages = 2});
  hand.add(Op::forward, 0, 0);                                                           // 0..1
  const TaskId push0 = hand.add(Op::push_forward, 0, 0);                                 // 1
  hand.add(Op::backward, 1, 9);                                                          // 0..2
  hand.add(Op::backward, 1, 8);                                                          // 2..4
  const TaskId pop0 = hand.add(Op::pop_forward, 1, 0, {{push0, EdgeKind::activation}});  // 4
  hand.add(Op::forward, 0, 1);                                                           // 1..2
  hand.add(Op::push_forward, 0, 1, {{pop0, EdgeKind::queue}});  // waits until 4
  hand.add(Op::forward, 0, 2);                                  // 4..5
  IdleCauses expected;
  expected.queue = ms(2);
  EXPECT_EQ(causes_of(hand.build(), Rank{0}, unit_costs(2)), expected);
}

TEST(Idle, TheLastOfSeveralWaitsIsTheCauseAndTiesGoToTheGradient) {
  for (const bool tie : {false, true}) {
    HandGraph hand({.stages = 3});
    hand.add(Op::forward, 1, 0);                            // 0..1
    const TaskId activation = hand.add(Op::forward, 0, 1);  // 0..1
    const TaskId late = hand.add(Op::forward, 0, 2);        // 1..2
    const TaskId gradient = hand.add(Op::backward, 2, 0);   // 0..2
    const TaskId chosen = tie ? late : activation;
    const TaskId pop = hand.add(Op::pop_forward, 1, 1, {{chosen, EdgeKind::activation}});
    static_cast<void>(pop);
    hand.add(Op::backward, 1, 0, {{gradient, EdgeKind::gradient}});  // 2..4
    IdleCauses expected;
    expected.backward_lock = ms(1);
    EXPECT_EQ(causes_of(hand.build(), Rank{1}, unit_costs(3)), expected);
  }
}

TEST(Idle, SplitsAWaitForAMessageIntoComputingAndSendingIt) {
  // Rank 0: F 0..1, B 1..3, F 3..4. Link of 5 ms: the first message 1..6, the second waits from 4
  // to 6 and is on the link until 11. Rank 1: F 6..7, F 11..12.
  HandGraph hand({.stages = 2});
  const TaskId f0 = hand.add(Op::forward, 0, 0);
  hand.add(Op::backward, 0, 9);
  const TaskId f1 = hand.add(Op::forward, 0, 1);
  const TaskId s0 = hand.add(Op::send_forward, 0, 0, {{f0, EdgeKind::local}}, Engine::link_forward);
  const TaskId s1 = hand.add(Op::send_forward, 0, 1, {{f1, EdgeKind::local}}, Engine::link_forward);
  hand.add(Op::forward, 1, 0, {{s0, EdgeKind::activation}});
  hand.add(Op::forward, 1, 1, {{s1, EdgeKind::activation}});
  IdleCauses expected;
  add_transfer_ends(expected, 6, 0);
  expected.transfer = ms(4);  // 7..11, all of it queued or on the link
  EXPECT_EQ(causes_of(hand.build(), Rank{1}, costs_of({.transfer = "5"}, 2)), expected);
}

TEST(Idle, CountsTheTimeBehindAnotherMessageAsTransfer) {
  // Rank 0: F 0..1, F 1..2. Link of 3 ms: 1..4, and 4..7 for the second, which rank 1 needs first.
  HandGraph hand({.stages = 2});
  const TaskId f0 = hand.add(Op::forward, 0, 0);
  const TaskId f1 = hand.add(Op::forward, 0, 1);
  hand.add(Op::send_forward, 0, 0, {{f0, EdgeKind::local}}, Engine::link_forward);
  const TaskId s1 = hand.add(Op::send_forward, 0, 1, {{f1, EdgeKind::local}}, Engine::link_forward);
  hand.add(Op::forward, 1, 9);  // 0..1
  hand.add(Op::forward, 1, 1, {{s1, EdgeKind::activation}});
  IdleCauses expected;
  expected.forward_lock = ms(1);  // 1..2: not computed yet
  expected.transfer = ms(5);      // 2..4 queued, 4..7 on the link
  EXPECT_EQ(causes_of(hand.build(), Rank{1}, costs_of({.transfer = "3"}, 2)), expected);
}

TEST(Idle, CountsOnlyTheTimeOnTheLinkAsTransfer) {
  // 0F 0..1, its message 1..1.5, 1F 1.5..2.5, 1B 2.5..4.5, message 4.5..5, 0B 5..7.
  const StageCosts costs = costs_of({.transfer = "0.5"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2}, costs.links());
  IdleCauses expected;
  expected.backward_lock = ms(3.5);
  expected.transfer = ms(0.5);
  EXPECT_EQ(causes_of(graph, Rank{0}, costs), expected);
}

TEST(Idle, BarriersAndForwardPhasesAreTheUpdateLock) {
  // decoupled.md 6, lock-step DDG of 3 stages, 3 iterations without drain:
  // W0 F0 .... F1 .... F2 .. B0 B0: waits for two barriers (4 each) and for the phase (2).
  const TaskGraph graph = graph_of("ddg", {.stages = 3, .batches = 3, .drain = false});
  IdleCauses expected;
  expected.update_lock = ms(4 + 4 + 2);
  EXPECT_EQ(causes_of(graph, Rank{0}, unit_costs(3)), expected);
  // W1 . F0 .... F1 . B0 B0 . F2 . B1 B1: for F1 it waits for the activation, which comes after
  // the barrier; its backwards wait for the phase.
  IdleCauses middle;
  middle.start = ms(1);
  middle.forward_lock = ms(4 + 1);
  middle.update_lock = ms(1 + 1);
  EXPECT_EQ(causes_of(graph, Rank{1}, unit_costs(3)), middle);
}

TEST(Idle, UpdatesOfAnotherLaneAreTheUpdateLock) {
  HandGraph hand({.stages = 2});
  hand.add(Op::forward, 1, 0);                       // 0..1
  const TaskId update = hand.add(Op::update, 0, 0);  // 0..3
  hand.add(Op::forward, 1, 1, {{update, EdgeKind::version}});
  IdleCauses expected;
  expected.update_lock = ms(2);
  EXPECT_EQ(causes_of(hand.build(), Rank{1}, costs_of({.update = "3"}, 2)), expected);
}

TEST(Idle, ARankIsNotIdleWhileItsRecomputeLaneWorks) {
  HandGraph hand({.stages = 2, .batches = 2});
  const TaskId f = hand.add(Op::forward, 0, 1);  // 0..1
  const TaskId r =
      hand.add(Op::recompute, 0, 0, {{f, EdgeKind::beside}}, Engine::recompute);  // 0..2
  const TaskId g = hand.add(Op::backward, 1, 0);                                  // 0..4
  hand.add(Op::pop_backward, 0, 0, {{g, EdgeKind::gradient}});
  hand.add(Op::backward, 0, 0, {{r, EdgeKind::local}});  // 4..8
  IdleCauses expected;
  expected.backward_lock = ms(2);
  EXPECT_EQ(causes_of(hand.build(), Rank{0}, costs_of({.backward = "4", .recompute = "2"}, 2)),
            expected);
}

TEST(Idle, ReadsMeasuredTimesLikePredictedOnes) {
  const TaskGraph graph = graph_of("bp", {.stages = 2});
  Timeline measured;
  measured.spans.resize(graph.size());
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (task.op == Op::forward) {
      measured[id] = task.stage == Stage{0} ? Span{ms(0), ms(1)} : Span{ms(1.5), ms(2.5)};
    } else if (task.op == Op::backward) {
      measured[id] = task.stage == Stage{1} ? Span{ms(2.75), ms(4.75)} : Span{ms(5), ms(7)};
    } else {
      measured[id] = task.stage == Stage{1} ? Span{ms(4.75), ms(4.75)} : Span{ms(7.5), ms(8)};
    }
  }
  const std::vector<IdleCauses> ranks = idle_by_cause(graph, measured);
  IdleCauses first, second;
  first.backward_lock = ms(4);
  first.update_lock = ms(0.5);  // the update waited for nothing but its own lane
  EXPECT_EQ(ranks[0], first);
  second.start = ms(1.5);
  second.backward_lock = ms(0.25);  // likewise the last stage's backward
  second.end = ms(8 - 4.75);
  EXPECT_EQ(ranks[1], second);
}

TEST(Idle, ARankWithoutWorkIsAtItsEndAllTheTime) {
  HandGraph hand({.stages = 2});
  hand.add(Op::forward, 0, 0);
  IdleCauses expected;
  expected.end = ms(1);
  EXPECT_EQ(causes_of(hand.build(), Rank{1}, unit_costs(2)), expected);
}

}  // namespace
}  // namespace unlatch::sim
