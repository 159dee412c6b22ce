// Lowering and the unit-step checker, against worked examples.
#include "files/lowering.h"

#include <gmock/gmock.h>

#include "files/pipeline_csv.h"
#include "files/table_schedule.h"
#include "schedules/error.h"
#include "schedules/registry.h"

namespace unlatch::files {
namespace {

using testing::HasSubstr;

ActionTable table(std::string_view text) { return parse_pipeline_csv(text).table; }

ActionTable table_of_spec(const char* spec, const Shape& shape) {
  return table_of(ScheduleSpec::parse(spec).make(shape));
}

int messages(const ActionTable& table) {
  int count = 0;
  for (const ActionRow& row : table.rows) {
    for (const Action& action : row) count += is_message(action.kind) ? 1 : 0;
  }
  return count;
}

// The example of PyTorch's rules, worked by hand.
TEST(Lowering, AddsMessagesToOneFOneB) {
  const ActionTable lowered =
      with_messages(table_of_spec("1f1b", {.stages = 2, .micro_batches = 3}));
  EXPECT_EQ(pipeline_csv(lowered),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\r\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1RECV_F2,1B1,1SEND_B1,1F2,1B2,1SEND_B2\r\n");
}

TEST(Lowering, AddsNoMessageWithinARank) {
  const ActionTable v = table("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_EQ(pipeline_csv(with_messages(v)),
            "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\r\n"
            "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\r\n");
}

TEST(Lowering, SendsAfterABlockThatOverlaps) {
  const ActionTable lowered =
      with_messages(table("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n"));
  EXPECT_THAT(pipeline_csv(lowered), HasSubstr("(0F1;0B0)OVERLAP_F_B,0SEND_F1,"));
}

// At most three stages are gathered: 0 makes room for 6 when 0, 2 and 4 are no longer the next
// three, and comes back when 6 is done.
TEST(Lowering, AddsShardsAndReductions) {
  EXPECT_EQ(pipeline_csv(with_sharding(table("0F0,2F0,4F0,6F0,6B0,4B0,2B0,0B0\n"), 1)),
            "0UNSHARD,2UNSHARD,4UNSHARD,0F0,0RESHARD,6UNSHARD,2F0,4F0,6F0,6B0,6REDUCE_GRAD,"
            "6RESHARD,0UNSHARD,4B0,4REDUCE_GRAD,4RESHARD,2B0,2REDUCE_GRAD,2RESHARD,0B0,"
            "0REDUCE_GRAD,0RESHARD\r\n");
}

TEST(Lowering, NamesTheRowThatCannotGoOn) {
  try {
    with_messages(table("0F0,0B0\n1B0,1F0,2F0\n"));
    FAIL() << "lowered";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("wait for each other"));
  }
}

struct Steps {
  const char* spec;
  Shape shape;
  int steps;
  int pairs;
};

// P=4, M=8; every action and message takes one step of its rank.
TEST(UnitSteps, AreThoseOfPyTorchsChecker) {
  const Shape plain{.stages = 4, .micro_batches = 8};
  const Shape chunked{.stages = 8, .chunks = 2, .micro_batches = 8};
  for (const Steps& c : {Steps{"gpipe:backward=ascending", plain, 56, 48},
                         {"1f1b", plain, 61, 48},
                         {"interleaved-1f1b", chunked, 148, 112},
                         {"looped-bfs", chunked, 144, 112},
                         {"zb-h1", plain, 67, 48},
                         {"zb-h2", plain, 65, 48},
                         {"interleaved-zb", chunked, 151, 112},
                         {"zb-v", chunked, 133, 96}}) {
    const ActionTable lowered = with_messages(table_of_spec(c.spec, c.shape));
    EXPECT_EQ(messages(lowered), 2 * c.pairs) << c.spec;
    EXPECT_EQ(unit_steps(lowered, c.shape), c.steps) << c.spec;
  }
}

TEST(UnitSteps, KnowNoOverlap) {
  EXPECT_THROW(unit_steps(table("(0F0;0B0)OVERLAP_F_B\n"), {.stages = 1}), Error);
  EXPECT_THROW(unit_steps(table("0UNSHARD,0F0,0B0\n"), {.stages = 1}), Error);
  EXPECT_EQ(unit_steps(table("0F0,0B0\n"), {.stages = 1}), 2);
}

}  // namespace
}  // namespace unlatch::files
