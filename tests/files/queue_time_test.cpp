// Time with one queue of messages a rank.
#include "files/queue_time.h"

#include <gmock/gmock.h>

#include "files/pipeline_csv.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

int units(std::string_view text) { return queue_time(parse_pipeline_csv(text).table); }

TEST(QueueTime, IsThatOfTheWorkWhereMessagesStandInTurn) {  // O04 with its messages
  EXPECT_EQ(units("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                  "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"),
            9);
}

TEST(QueueTime, CountsIAndWApart) {
  EXPECT_EQ(units("0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n"), 5);
}

TEST(QueueTime, HoldsUpASendBehindAReceive) {
  // Forwards of two chunks on three ranks: 0SEND_F1 is ready at 2, 3RECV_F0 not before 3.
  const std::string others =
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1\n2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1\n";
  EXPECT_EQ(units("0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0\n" + others), 4);
  EXPECT_EQ(units("0F0,0SEND_F0,3RECV_F0,0F1,0SEND_F1,3F0\n" + others), 5);
}

TEST(QueueTime, NamesWhatCannotRun) {
  try {
    units("0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
    FAIL() << "rows that wait for each other were timed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the rows wait for each other"));
  }
}

}  // namespace
}  // namespace unlatch::files
