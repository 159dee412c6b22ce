// Messages: one a data edge between ranks, with pushes, sends and pops looked through.
#include "traces/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/hand_made.h"

namespace unlatch {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::HandMade;
using testing::two_ranks;

TEST(Messages, AreTheDataEdgesBetweenRanks) {
  const TaskGraph graph = two_ranks(1ns).graph();
  EXPECT_THAT(Messages(graph).all(), ElementsAre(Message{{0}, {1}}, Message{{2}, {3}}));
}

TEST(Messages, AreCountedOnceThroughQueueAndLink) {
  HandMade made(Shape{.stages = 2});
  made.lane(0).lane(0, Engine::link_forward).lane(1).lane(1, Engine::link_backward);
  const TaskId f0 = made.add(Op::forward, 0, 0, 0, 0ns, 1ns);
  const TaskId push = made.add(Op::push_forward, 0, 0, 0, 1ns, 1ns, {{f0, EdgeKind::order}});
  const TaskId send = made.add(Op::send_forward, 0, 0, 1, 1ns, 2ns, {{push, EdgeKind::activation}});
  const TaskId pop = made.add(Op::pop_forward, 1, 0, 2, 2ns, 2ns, {{send, EdgeKind::activation}});
  const TaskId f1 = made.add(Op::forward, 1, 0, 2, 2ns, 3ns,
                             {{pop, EdgeKind::order}, {send, EdgeKind::activation}});
  const TaskId i1 = made.add(Op::backward_input, 1, 0, 2, 3ns, 4ns, {{f1, EdgeKind::order}});
  const TaskId push_b = made.add(Op::push_backward, 1, 0, 2, 4ns, 4ns, {{i1, EdgeKind::order}});
  made.add(Op::pop_backward, 0, 0, 0, 4ns, 4ns,
           {{push, EdgeKind::order}, {push_b, EdgeKind::gradient}});
  const TaskId b0 = made.add(Op::backward, 0, 0, 0, 4ns, 5ns);
  const TaskGraph graph = made.graph();
  EXPECT_THAT(Messages(graph).all(), ElementsAre(Message{f0, f1}, Message{i1, b0}));
}

TEST(Messages, DoNotLeaveTheirRank) {
  HandMade made(Shape{.stages = 2, .chunks = 2});
  made.lane(0);
  const TaskId f0 = made.add(Op::forward, 0, 0, 0, 0ns, 1ns);
  made.add(Op::forward, 1, 0, 0, 1ns, 2ns, {{f0, EdgeKind::activation}});
  const TaskGraph graph = made.graph();
  EXPECT_THAT(Messages(graph).all(), ElementsAre());
}

}  // namespace
}  // namespace unlatch
