#include "schedules/transfers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/registry.h"

namespace unlatch {
namespace {

int count(const TaskGraph& graph, Op op) {
  int n = 0;
  for (const Task& task : graph.tasks()) n += task.op == op ? 1 : 0;
  return n;
}

TEST(WithTransfers, AddsOneSendAMessage) {
  const TaskGraph graph =
      ScheduleSpec::parse("1f1b").make({.stages = 4, .micro_batches = 8}).build();
  const std::vector<bool> all(3, true);
  const TaskGraph sends = with_transfers(graph, {all, all});
  EXPECT_EQ(count(sends, Op::send_forward), 24);
  EXPECT_EQ(count(sends, Op::send_backward), 24);
  EXPECT_EQ(sends.size(), graph.size() + 48);
  EXPECT_EQ(sends.lanes().size(), 4U + 6U);
}

TEST(WithTransfers, LeavesFreeBoundariesAlone) {
  const TaskGraph graph =
      ScheduleSpec::parse("1f1b").make({.stages = 3, .micro_batches = 2}).build();
  const TaskGraph sends = with_transfers(graph, {{true, false}, {false, false}});
  EXPECT_EQ(count(sends, Op::send_forward), 2);
  EXPECT_EQ(count(sends, Op::send_backward), 0);
  for (const Task& task : sends.tasks()) {
    if (task.op == Op::send_forward) {
      EXPECT_EQ(task.stage, Stage{0});
    }
  }
}

TEST(WithTransfers, SendsTheErrorOfDirectFeedbackOnceToAllStages) {
  const TaskGraph graph = ScheduleSpec::parse("dfa").make({.stages = 4, .batches = 3}).build();
  const std::vector<bool> all(3, true);
  const TaskGraph sends = with_transfers(graph, {all, all});
  EXPECT_EQ(count(sends, Op::send_forward), 9);
  EXPECT_EQ(count(sends, Op::send_backward), 3);
  int taken = 0;
  for (const TaskId id : sends.ids()) {
    const Task& task = sends.task(id);
    if (task.op == Op::send_backward) {
      EXPECT_EQ(task.stage, Stage{3});
    }
    for (const Edge edge : sends.edges_into(id)) {
      if (edge.kind() != EdgeKind::gradient) continue;
      EXPECT_EQ(task.op, Op::backward);
      const Task& from = sends.task(edge.from());
      EXPECT_EQ(label(from), fmt::format("3SEND_B{}", task.micro_batch.value));
      ++taken;
    }
  }
  EXPECT_EQ(taken, 9);
  // The last boundary's link carries it, whatever the others take.
  EXPECT_EQ(count(with_transfers(graph, {all, {true, true, false}}), Op::send_backward), 0);
  EXPECT_EQ(count(with_transfers(graph, {all, {false, false, true}}), Op::send_backward), 3);
}

TEST(WithTransfers, KeepsTheOrderOfEachLane) {
  const TaskGraph graph = ScheduleSpec::parse("dsp").make({.stages = 3, .batches = 9}).build();
  const std::vector<bool> all(2, true);
  const TaskGraph sends = with_transfers(graph, {all, all});
  const auto compute_labels = [](const TaskGraph& g, Rank rank) {
    std::vector<std::string> labels;
    for (const Task& task : g.tasks()) {
      if (g.rank(task) == rank && g.lane(task).engine == Engine::compute) {
        labels.push_back(label(task));
      }
    }
    return labels;
  };
  for (const Rank r : up_to<Rank>(3)) EXPECT_EQ(compute_labels(sends, r), compute_labels(graph, r));
  for (const TaskId id : sends.ids()) {
    for (const Edge edge : sends.edges_into(id)) EXPECT_LT(edge.from(), id);
  }
}

TEST(WithTransfers, MakesABarrierWaitForTheMessagesOfItsIteration) {
  const TaskGraph graph = ScheduleSpec::parse("fdg").make({.stages = 2, .batches = 3}).build();
  const TaskGraph sends = with_transfers(graph, {{true}, {true}});
  std::vector<std::string> waited;
  for (const TaskId id : sends.ids()) {
    if (sends.task(id).op != Op::barrier) continue;
    for (const Edge edge : sends.edges_into(id)) {
      const Task& from = sends.task(edge.from());
      if (is_send(from.op)) waited.push_back(label(from));
    }
  }
  EXPECT_THAT(waited, testing::UnorderedElementsAre("0SEND_F0", "0SEND_F1", "0SEND_F2", "1SEND_B0",
                                                    "1SEND_B1", "1SEND_B2"));
}

}  // namespace
}  // namespace unlatch
