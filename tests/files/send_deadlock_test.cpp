// Deadlocks that blocking sends add.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "files/lowering.h"
#include "files/message_checks.h"
#include "files/pipeline_csv.h"
#include "files/table_schedule.h"
#include "schedules/registry.h"

namespace unlatch::files {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::optional<Violation> deadlock(std::string_view text, Sends sends) {
  return send_deadlock(parse_pipeline_csv(text).table, sends);
}

constexpr std::string_view both_send_first =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

TEST(SendDeadlock, NamesTwoRanksThatBothSendFirst) {  // O02
  const auto found = deadlock(both_send_first, Sends::rendezvous);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rule, "deadlock");
  EXPECT_THAT(found->tasks, testing::UnorderedElementsAre("0SEND_F1", "1SEND_B0"));
  EXPECT_THAT(
      found->message,
      AllOf(HasSubstr("rank 0 in 0SEND_F1 waits for 1RECV_F1 of rank 1, which stands behind "
                      "1SEND_B0"),
            HasSubstr("rank 1 in 1SEND_B0 waits for 0RECV_B0 of rank 0, which stands "
                      "behind 0SEND_F1")));
}

TEST(SendDeadlock, IsNoneWithBufferedOrGroupedSends) {  // O02
  EXPECT_FALSE(deadlock(both_send_first, Sends::buffered).has_value());
  EXPECT_FALSE(deadlock(both_send_first, Sends::grouped).has_value());
}

TEST(SendDeadlock, IsNoneWhenOneRankReceivesFirst) {  // O02
  EXPECT_FALSE(deadlock("0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1\n"
                        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
                        Sends::rendezvous)
                   .has_value());
}

TEST(SendDeadlock, GoesRoundARingOfTwoRanks) {  // O03
  const std::string rank1 = "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1\n";
  const std::string late = "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0\n" + rank1;
  const auto found = deadlock(late, Sends::rendezvous);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->tasks, testing::UnorderedElementsAre("0SEND_F1", "1SEND_F0"));
  EXPECT_FALSE(deadlock(late, Sends::buffered).has_value());
  EXPECT_FALSE(
      deadlock("0F0,0SEND_F0,0F1,2RECV_F0,0SEND_F1,2F0\n" + rank1, Sends::rendezvous).has_value());
}

TEST(SendDeadlock, GoesRoundARingOfFourRanks) {  // O22, transfers in one queue with the work
  std::string rank0 = "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3";
  std::string others[3];
  for (int chunk = 0; chunk < 2; ++chunk) {
    for (int m = 0; m < 4; ++m) {
      if (chunk == 1) rank0 += fmt::format(",4RECV_F{0},4F{0},4SEND_F{0}", m);
      for (int r = 1; r < 4; ++r) {
        const int k = 4 * chunk + r;
        others[r - 1] += fmt::format("{0}RECV_F{1},{0}F{1},", k, m);
        if (k < 7) others[r - 1] += fmt::format("{0}SEND_F{1},", k, m);
      }
    }
  }
  const std::string text = rank0 + "\n" + others[0] + "\n" + others[1] + "\n" + others[2] + "\n";
  const auto found = deadlock(text, Sends::rendezvous);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->tasks,
              testing::UnorderedElementsAre("0SEND_F3", "1SEND_F2", "2SEND_F1", "3SEND_F0"));
  EXPECT_FALSE(deadlock(text, Sends::buffered).has_value());
}

// What PyTorch's lowering makes needs sends that do not block: 1F1B crosses them.
TEST(SendDeadlock, FollowsFromTheLoweredOrder) {
  const auto lowered = [](const char* spec) {
    return with_messages(
        table_of(ScheduleSpec::parse(spec).make({.stages = 4, .micro_batches = 8})));
  };
  EXPECT_FALSE(send_deadlock(lowered("gpipe"), Sends::rendezvous).has_value());
  EXPECT_FALSE(send_deadlock(lowered("1f1b"), Sends::buffered).has_value());
}

}  // namespace
}  // namespace unlatch::files
