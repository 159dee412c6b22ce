// Ranks that wait for their messages: times worked out by hand, and on every schedule that sends
// and receives in turn.
#include "files/blocking_sends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "files/message_order.h"
#include "files/pipeline_csv.h"
#include "files/repeat.h"
#include "files/table_schedule.h"
#include "files/waits.h"
#include "sim/event_simulator.h"
#include "tests/sim/support.h"
#include "tests/support/small_graphs.h"
#include "traces/idle.h"

namespace unlatch::files {
namespace {

using sim::StageCosts;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Pair;
using Times = std::pair<double, double>;  ///< ms

Links all_links(const Shape& shape) {
  const std::vector<bool> all(static_cast<std::size_t>(std::max(0, shape.stages - 1)), true);
  Links links{.activation = all, .gradient = all};
  for (const Stage k : up_to<Stage>(shape.stages - 1)) {
    const auto at = static_cast<std::size_t>(k.value);
    links.activation[at] = links.gradient[at] = !shape.is_last(k);
  }
  return links;
}

TaskGraph blocking(const Schedule& schedule, Sends sends) {
  return with_blocking_sends(with_transfers(schedule.build(), all_links(schedule.shape())),
                             with_messages_in_order(schedule), sends);
}

std::map<std::string, Times> times_of(const TaskGraph& graph, const sim::CostSettings& settings) {
  const Timeline timeline = sim::run(graph, sim::costs_of(settings, graph.shape().stages));
  std::map<std::string, Times> times;
  for (const TaskId id : graph.ids()) {
    times[label(graph.task(id))] = {to_ms(timeline[id].start), to_ms(timeline[id].end)};
  }
  return times;
}

Schedule schedule_of(std::string_view spec, const Shape& shape) {
  return ScheduleSpec::parse(spec).make(shape);
}

// rank 0: F0 send F1 send      receive B1 receive B0
// rank 1: receive F0 receive F1 B1 send B0 send
TEST(BlockingSends, HoldUpBothRanks) {
  const TaskGraph graph =
      blocking(schedule_of("gpipe", {.stages = 2, .micro_batches = 2}), Sends::rendezvous);
  EXPECT_THAT(times_of(graph, {.transfer = "1"}),
              IsSupersetOf({Pair("0F0", Times(0, 1)), Pair("0SEND_F0", Times(1, 2)),
                            Pair("0F1", Times(2, 3)), Pair("1F0", Times(2, 3)),
                            Pair("0SEND_F1", Times(3, 4)), Pair("1F1", Times(4, 5)),
                            Pair("1B1", Times(5, 7)), Pair("1SEND_B1", Times(7, 8)),
                            Pair("0B1", Times(8, 10)), Pair("1B0", Times(8, 10)),
                            Pair("1SEND_B0", Times(10, 11)), Pair("0B0", Times(11, 13))}));
}

// The same run. Rank 0: its own first activation, then gradient 1, of which the last 1 ms is its
// way, then the way of gradient 0. Rank 1: the way of its second activation, its own gradient 1,
// and gradient 0 before its update.
TEST(BlockingSends, CountAsTransferWhereARankWaitsForThem) {
  const TaskGraph graph =
      blocking(schedule_of("gpipe", {.stages = 2, .micro_batches = 2}), Sends::rendezvous);
  const auto idle = idle_by_cause(graph, sim::run(graph, sim::costs_of({.transfer = "1"}, 2)));
  EXPECT_EQ(idle[0].transfer, sim::ms(1 + 1 + 1));
  EXPECT_EQ(idle[0].backward_lock, sim::ms(4));
  EXPECT_EQ(idle[0].total(), sim::ms(7));
  EXPECT_EQ(idle[1].start, sim::ms(2));
  EXPECT_EQ(idle[1].transfer, sim::ms(1 + 1 + 1));
  EXPECT_EQ(idle[1].end, sim::ms(2));
  EXPECT_EQ(idle[1].total(), sim::ms(7));
}

// Rank 1 is still sending when rank 0 has its second activation, rank 2 waits for rank 1 to come
// to the gradient of micro-batch 0.
TEST(BlockingSends, WaitForAReceiverThatIsNotThereYet) {
  const TaskGraph graph =
      blocking(schedule_of("gpipe", {.stages = 3, .micro_batches = 2}), Sends::rendezvous);
  EXPECT_THAT(times_of(graph, {.transfer = "1"}),
              IsSupersetOf({Pair("1SEND_F0", Times(3, 4)), Pair("0F1", Times(2, 3)),
                            Pair("0SEND_F1", Times(4, 5)), Pair("1SEND_F1", Times(6, 7)),
                            Pair("2B0", Times(11, 13)), Pair("1SEND_B1", Times(13, 14)),
                            Pair("2SEND_B0", Times(14, 15)), Pair("0B1", Times(14, 16)),
                            Pair("1SEND_B0", Times(17, 18)), Pair("0B0", Times(18, 20))}));
}

// A message that takes no time still waits for its receiver: rank 0 cannot run ahead.
TEST(BlockingSends, WaitWithoutTakingTime) {
  const TaskGraph graph =
      blocking(schedule_of("gpipe", {.stages = 2, .micro_batches = 3}), Sends::rendezvous);
  // 0F2 ends at 3, but rank 1 comes to it at 5: it takes 2 ms for each forward.
  EXPECT_THAT(times_of(graph, {.forward = "1,2"}),
              IsSupersetOf({Pair("0SEND_F0", Times(1, 1)), Pair("0F1", Times(1, 2)),
                            Pair("0SEND_F1", Times(3, 3)), Pair("0F2", Times(3, 4)),
                            Pair("0SEND_F2", Times(5, 5)), Pair("1F2", Times(5, 7))}));
}

// Calls: rank 0 {send F1, receive B0} at 3, rank 1 {send B0, receive F1} at 5. Both messages go
// then, side by side.
TEST(BlockingSends, GroupMessagesThatStandTogether) {
  const TaskGraph graph =
      blocking(schedule_of("1f1b", {.stages = 2, .micro_batches = 2}), Sends::grouped);
  EXPECT_THAT(times_of(graph, {.transfer = "1"}),
              IsSupersetOf({Pair("0F1", Times(2, 3)), Pair("1B0", Times(3, 5)),
                            Pair("0SEND_F1", Times(5, 6)), Pair("1SEND_B0", Times(5, 6)),
                            Pair("1F1", Times(6, 7)), Pair("0B0", Times(6, 8)),
                            Pair("1SEND_B1", Times(9, 10)), Pair("0B1", Times(10, 12))}));
}

// An update stands behind the sends of its backward and before the next receive: rank 1 takes its
// second activation when its update of 6 ms is done, at 12.
TEST(BlockingSends, UpdateBeforeTheNextReceive) {
  const TaskGraph graph = blocking(
      schedule_of("gpipe", {.stages = 2, .micro_batches = 1, .batches = 2}), Sends::rendezvous);
  EXPECT_THAT(times_of(graph, {.update = "1,6", .transfer = "1"}),
              IsSupersetOf({Pair("1SEND_B0", Times(5, 6)), Pair("1U0", Times(6, 12)),
                            Pair("0U0", Times(8, 9)), Pair("0F1", Times(9, 10)),
                            Pair("0SEND_F1", Times(12, 13)), Pair("1B1", Times(14, 16)),
                            Pair("0U1", Times(19, 20)), Pair("1U1", Times(17, 23))}));
}

// Sends that are waited for later let their rank go on: 0F1 runs while 0SEND_F0 is on its way.
TEST(BlockingSends, GoOnWhereTheRowWaitsLater) {
  const ActionTable work = parse_pipeline_csv("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n").table;
  const ActionTable table = with_send_waits(in_program_order(work, 1));
  const Schedule schedule =
      schedule_of(work, shape_of(work), "by hand", Updates::after_last_backward);
  const TaskGraph graph = with_blocking_sends(
      with_transfers(schedule.build(), all_links(schedule.shape())), table, Sends::rendezvous);
  EXPECT_THAT(times_of(graph, {.transfer = "1"}),
              IsSupersetOf({Pair("0SEND_F0", Times(1, 2)), Pair("0F1", Times(1, 2)),
                            Pair("0SEND_F1", Times(3, 4)), Pair("1F1", Times(4, 5)),
                            Pair("1SEND_B0", Times(7, 8)), Pair("1B1", Times(7, 9)),
                            Pair("1SEND_B1", Times(10, 11)), Pair("0B1", Times(11, 13))}));
}

// Rank 1 sends the older gradient first; the newer one then waits for rank 0 to have used it.
TEST(BlockingSends, KeepTheOrderOfAFile) {
  const ActionTable table = parse_pipeline_csv(
                                "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                                "1RECV_F0,1F0,1RECV_F1,1F1,1B1,1B0,1SEND_B0,1SEND_B1\n")
                                .table;
  const Schedule schedule =
      schedule_of(table, shape_of(table), "by hand", Updates::after_last_backward);
  const TaskGraph graph = with_blocking_sends(
      with_transfers(schedule.build(), all_links(schedule.shape())), table, Sends::rendezvous);
  EXPECT_THAT(times_of(graph, {.transfer = "1"}),
              IsSupersetOf({Pair("1B1", Times(5, 7)), Pair("1B0", Times(7, 9)),
                            Pair("1SEND_B0", Times(9, 10)), Pair("0B0", Times(10, 12)),
                            Pair("1SEND_B1", Times(12, 13)), Pair("0B1", Times(13, 15))}));
}

TEST(BlockingSends, RepeatTheMessagesOfABatchInAllReplicas) {
  const ActionTable one = parse_pipeline_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n").table;
  const Shape whole{.stages = 4, .micro_batches = 2, .batches = 2, .copies = 2, .replicas = 2};
  EXPECT_EQ(pipeline_csv(repeated(one, whole)),
            "0F0,0SEND_F0,0F2,0SEND_F2\r\n1RECV_F0,1F0,1RECV_F2,1F2\r\n"
            "2F1,2SEND_F1,2F3,2SEND_F3\r\n3RECV_F1,3F1,3RECV_F3,3F3\r\n");
}

TEST(BlockingSends, NameTheRanksThatWaitForEachOther) {
  const Schedule schedule = schedule_of("1f1b", {.stages = 2, .micro_batches = 4});
  EXPECT_THAT(sim::error_of([&] { blocking(schedule, Sends::rendezvous); }),
              testing::AllOf(HasSubstr("1f1b: with rendezvous sends, deadlock"),
                             HasSubstr("rank 0 0SEND_F1"), HasSubstr("rank 1 1SEND_B0")));
}

/// Every variant of every schedule whose messages have an order and do not deadlock.
TEST(BlockingSends, AreNeverFasterThanBufferedOnesAndAlikeInBothSimulators) {
  struct NoTraffic : sim::Traffic {
    std::vector<double> none;
    const std::vector<double>& links() const override { return none; }
    std::span<const sim::Transfer> transfers(const Task&) const override { return {}; }
  };
  int all = 0;
  for (const Method& method : methods()) {
    for (const auto& [ranks, parts, replicas] :
         {std::tuple{1, 2, 1}, {2, 4, 1}, {4, 8, 1}, {3, 6, 1}, {2, 4, 2}}) {
      const int stages = ranks * method.chunks.usual;
      for (const std::string& text :
           testing_support::variants(method, stages, method.chunks.usual)) {
        const ScheduleSpec spec = ScheduleSpec::parse(text);
        const Shape shape{.stages = stages,
                          .chunks = method.chunks.usual,
                          .micro_batches = parts,
                          .batches = 3,
                          .replicas = replicas};
        if (!testing_support::runs(spec, shape)) continue;
        const Schedule schedule = spec.make(shape);
        for (const Sends sends : {Sends::rendezvous, Sends::grouped}) {
          if (send_deadlock(schedule, sends)) continue;
          SCOPED_TRACE(fmt::format("{} P={} R={} {}", text, ranks, replicas, name(sends)));
          const TaskGraph plain = schedule.build();
          const StageCosts costs(
              sim::stage_times({.update = "0.5", .transfer = stages > 1 ? "0.75" : "0"}, stages)
                  .for_copies(plain.shape().copies));
          const TaskGraph graph = blocking(schedule, sends);
          const Timeline timeline = sim::run(graph, costs);
          EXPECT_EQ(sim::run(graph, costs, NoTraffic{}).spans, timeline.spans);
          EXPECT_GE(makespan(timeline),
                    makespan(sim::run(with_transfers(plain, all_links(plain.shape())), costs)));
          ++all;
        }
      }
    }
  }
  EXPECT_GT(all, 50);
}

}  // namespace
}  // namespace unlatch::files
