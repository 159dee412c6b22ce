// Messages in program order, and the deadlocks of whole schedules.
#include "files/message_order.h"

#include <gmock/gmock.h>

#include "files/pipeline_csv.h"
#include "schedules/registry.h"

namespace unlatch::files {
namespace {

using testing::HasSubstr;

std::string in_program_order(std::string_view text) {
  return pipeline_csv(in_program_order(parse_pipeline_csv(text).table, 1));
}

TEST(MessageOrder, ReceivesBeforeAndSendsBehindTheWork) {
  EXPECT_EQ(in_program_order("0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1B1\n"),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0B1\r\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n");
}

TEST(MessageOrder, KeepsTheWorkOfACellTogether) {
  EXPECT_EQ(in_program_order("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n"),
            "0F0,0SEND_F0,0RECV_B0,(0F1;0B0)OVERLAP_F_B,0SEND_F1,0RECV_B1,0B1\r\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n");
}

TEST(MessageOrder, EndsWithEveryCopyOfTheModel) {
  const ActionTable table = parse_pipeline_csv("0F0,0B0,3F1,3B1\n1F0,1B0,2F1,2B1\n").table;
  EXPECT_EQ(pipeline_csv(in_program_order(table, 2)),
            "0F0,0SEND_F0,0RECV_B0,0B0,3RECV_F1,3F1,3B1,3SEND_B1\r\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,2F1,2SEND_F1,2RECV_B1,2B1\r\n");
}

TEST(MessageOrder, IsThatOfTheSchedulesThatSendAndReceiveInTurn) {
  const Shape shape{.stages = 3, .micro_batches = 4, .batches = 2};
  const auto why = [&](const char* spec) {
    return why_without_messages(ScheduleSpec::parse(spec).make(shape));
  };
  for (const char* spec : {"gpipe:recompute=always", "1f1b", "pipedream", "dualpipev"}) {
    const Schedule schedule = ScheduleSpec::parse(spec).make(
        spec == std::string("dualpipev") ? Shape{.stages = 4, .chunks = 2, .micro_batches = 4}
                                         : shape);
    EXPECT_EQ(why_without_messages(schedule), "") << spec;
  }
  EXPECT_THAT(why("dsp"), HasSubstr("queues"));
  EXPECT_THAT(why("ddg"), HasSubstr("barriers"));
  EXPECT_THAT(why("dgl"), HasSubstr("inside a stage"));
}

TEST(MessageOrder, DeadlocksInOneReplicaAsInAll) {
  const Schedule schedule = ScheduleSpec::parse("1f1b").make(
      {.stages = 2, .micro_batches = 4, .batches = 2, .replicas = 2});
  const auto found = send_deadlock(schedule, Sends::rendezvous);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rule, "deadlock");
  EXPECT_EQ(found->tasks.size(), 2U);
  EXPECT_EQ(found->column, -1);
  EXPECT_FALSE(send_deadlock(schedule, Sends::grouped).has_value());
  EXPECT_FALSE(send_deadlock(schedule, Sends::buffered).has_value());
}

TEST(MessageOrder, GivesTheCopiesOfAPipelineOneOrderOfReductions) {
  const Shape shape{.stages = 4, .micro_batches = 8};
  EXPECT_FALSE(send_deadlock(ScheduleSpec::parse("chimera").make(shape), Sends::grouped));
}

}  // namespace
}  // namespace unlatch::files
