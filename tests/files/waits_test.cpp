// Waits for sends and reductions: where they are put, the rules they keep, the deadlocks they make.
#include "files/waits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "files/lowering.h"
#include "files/message_order.h"
#include "files/pipeline_csv.h"
#include "files/queue_time.h"
#include "files/schedule_file.h"
#include "files/table_schedule.h"
#include "schedules/registry.h"

namespace unlatch::files {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

ActionTable table(std::string_view text) { return parse_pipeline_csv(text).table; }

std::vector<Violation> violations(const std::string& text, Sends sends = Sends::buffered) {
  return ScheduleFile("file.csv", text).violations(sends);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

const std::string good =
    "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\r\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0\r\n";

// The example of PyTorch's rules, worked by hand.
TEST(SendWaits, StandBehindTheBackwardOrAtTheEndOfTheRow) {
  EXPECT_EQ(pipeline_csv(with_send_waits(
                table("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1\n"
                      "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"))),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0WAIT_SEND_F0,0W0,0RECV_B1,0I1,0WAIT_SEND_F1,"
            "0W1\r\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\r\n");
}

TEST(SendWaits, StandBehindAWholeBlock) {
  const ActionTable waiting =
      with_send_waits(table("0F0,0SEND_F0,0RECV_B0,(0F1;0B0)OVERLAP_F_B,0SEND_F1,0RECV_B1,0B1\n"));
  EXPECT_THAT(pipeline_csv(waiting), HasSubstr("(0F1;0B0)OVERLAP_F_B,0WAIT_SEND_F0,0SEND_F1,"));
  EXPECT_EQ(waiting, table(pipeline_csv(waiting)));
}

TEST(ReductionWaits, StandBehindTheirReductions) {
  EXPECT_EQ(pipeline_csv(with_reduction_waits(table("0F0,0B0,0REDUCE_GRAD,0RESHARD\n"))),
            "0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\r\n");
}

TEST(Waits, AreReadWrittenAndTakenOutAgain) {
  EXPECT_THAT(violations(good), IsEmpty());
  EXPECT_EQ(pipeline_csv(table(good)), good);
  EXPECT_EQ(pipeline_csv(without_waits(table(good))),
            "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\r\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\r\n");
  EXPECT_TRUE(has_waits(table(good)));
  EXPECT_FALSE(has_waits(without_waits(table(good))));
}

TEST(Waits, AddNothingToTheGraph) {
  const ScheduleFile waiting("file.csv", good);
  const ScheduleFile bare("file.csv", "0F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(waiting.shape(), bare.shape());
  EXPECT_EQ(pipeline_csv(table_of(waiting.schedule(1))), pipeline_csv(table_of(bare.schedule(1))));
  EXPECT_EQ(queue_time(without_sharding(waiting.table())), queue_time(with_messages(bare.table())));
}

struct Fault {
  const char* from;
  const char* to;
  const char* rule;
  const char* task;
  int row, column;
  const char* message;
};

TEST(Waits, NameWhatHasNoPartnerByRowAndColumn) {
  for (const Fault& c :
       {Fault{"0SEND_F0,", "", "missing", "0F0", 0, 0, "0SEND_F0 is missing"},
        Fault{"1B0,1SEND_B0,", "1B0,1SEND_B0,1WAIT_SEND_F0,", "missing", "1WAIT_SEND_F0", 1, 4,
              "there is no 1SEND_F0 on rank 1"},
        Fault{",0WAIT_SEND_F0", "", "missing", "0SEND_F0", 0, 1,
              "0WAIT_SEND_F0 is missing after it"},
        Fault{"0F0,0SEND_F0", "0F0,0WAIT_SEND_F0,0SEND_F0", "duplicate", "0WAIT_SEND_F0", 0, 5,
              "column 1 already"},
        Fault{"0WAIT_SEND_F0", "0WAIT_SEND_F7", "range", "0WAIT_SEND_F7", 0, 4, "micro-batches"},
        Fault{",1WAIT_REDUCE_GRAD", "", "missing", "1REDUCE_GRAD", 1, 4,
              "1WAIT_REDUCE_GRAD is missing after it"},
        Fault{"0REDUCE_GRAD,", "", "missing", "0WAIT_REDUCE_GRAD", 0, 5, "no 0REDUCE_GRAD"},
        Fault{"0WAIT_REDUCE_GRAD", "1WAIT_REDUCE_GRAD", "placement", "1WAIT_REDUCE_GRAD", 0, 6,
              "stage 1 is on rank 1"}}) {
    const std::string text = replaced(good, c.from, c.to);
    const auto found = violations(text);
    const auto same = [&](const Violation& violation) {
      return violation.rule == c.rule && violation.tasks == std::vector<std::string>{c.task} &&
             violation.row == c.row && violation.column == c.column &&
             violation.message.find(c.message) != std::string::npos;
    };
    std::string all;
    for (const Violation& violation : found) {
      all += fmt::format("{}: {}\n", violation.rule, violation.message);
    }
    EXPECT_TRUE(std::ranges::any_of(found, same)) << text << all;
  }
}

TEST(Waits, ComeAfterTheirSends) {
  const auto found = violations(
      replaced(replaced(good, ",0WAIT_SEND_F0", ""), "0SEND_F0,", "0WAIT_SEND_F0,0SEND_F0,"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "order");
  EXPECT_EQ(found[0].message,
            "0WAIT_SEND_F0 at row 0, column 1: 0SEND_F0, which it waits for, comes later, in "
            "column 2");
}

TEST(Waits, AllowOneReductionOfARankAtATime) {
  const std::string apart =
      "0F0,1F0,1B0,1REDUCE_GRAD,0B0,1WAIT_REDUCE_GRAD,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n";
  EXPECT_THAT(violations(apart), IsEmpty());
  const auto found =
      violations("0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,1WAIT_REDUCE_GRAD\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].message,
            "0REDUCE_GRAD at row 0, column 5: 1REDUCE_GRAD of column 3 is not waited for yet; a "
            "rank runs one reduction at a time");
  EXPECT_EQ(found[1].message,
            "1WAIT_REDUCE_GRAD at row 0, column 7: no 1REDUCE_GRAD is running that it could wait "
            "for");
}

// Both ranks wait for their send before they post the receive that the other one waits for.
TEST(WaitDeadlock, NamesWaitsThatStandTooEarly) {
  const std::string text =
      "0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F0,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1WAIT_SEND_B1\n";
  const auto found = violations(text);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "deadlock");
  EXPECT_THAT(found[0].tasks, testing::UnorderedElementsAre("0WAIT_SEND_F1", "1WAIT_SEND_B0"));
  EXPECT_THAT(found[0].message,
              AllOf(HasSubstr("rank 0 in 0WAIT_SEND_F1 waits for 1RECV_F1 of rank 1, which stands "
                              "behind 1WAIT_SEND_B0"),
                    HasSubstr("rank 1 in 1WAIT_SEND_B0 waits for 0RECV_B0 of rank 0, which stands "
                              "behind 0WAIT_SEND_F1")));
  const std::string later = replaced(replaced(text, ",1WAIT_SEND_B0", ""), "1WAIT_SEND_B1",
                                     "1WAIT_SEND_B0,1WAIT_SEND_B1");
  EXPECT_THAT(violations(later), IsEmpty());
}

// The receive is posted before the work whose result it waits for; only that work needs the
// message.
TEST(WaitDeadlock, DoesNotWaitInAReceive) {
  const std::string early =
      "0RECV_B0,0F0,0SEND_F0,0B0,0WAIT_SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0\n";
  EXPECT_THAT(violations(early), IsEmpty());
  EXPECT_EQ(violations(early, Sends::rendezvous).size(), 1U);
}

// A ring of three ranks: the wait of rank 0 holds up the gradient that ranks 2 and 1 need before
// the receive it waits for is posted.
TEST(WaitDeadlock, GoesThroughWorkThatNeedsAMessage) {
  const std::string late = pipeline_csv(with_send_waits(
      in_program_order(table("0F0,3F0,0F1,3F1,3B0,0B0,3B1,0B1\n1F0,4F0,1F1,4B0,1B0,4F1,4B1,1B1\n"
                             "2F0,5F0,5B0,2F1,2B0,5F1,5B1,2B1\n"),
                       1)));
  EXPECT_THAT(violations(late), IsEmpty());
  const auto found = violations(
      replaced(replaced(late, ",3WAIT_SEND_F1", ""), ",3SEND_F1", ",3SEND_F1,3WAIT_SEND_F1"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].tasks, testing::UnorderedElementsAre("3WAIT_SEND_F1", "1B0", "2B0"));
  EXPECT_THAT(found[0].message, HasSubstr("rank 1 in 1B0 waits for 2SEND_B0 of rank 2"));
}

// What blocks as a plain send goes on where the wait stands later.
TEST(WaitDeadlock, LetsASendGoOnThatIsWaitedForLater) {
  const std::string plain =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  EXPECT_EQ(violations(plain, Sends::rendezvous).size(), 1U);
  EXPECT_THAT(violations(pipeline_csv(with_send_waits(table(plain))), Sends::rendezvous),
              IsEmpty());
}

// P=4, M=8; steps of PyTorch 2.15's checker on its own lowering of the same schedules.
TEST(Waits, OfTheCatalogueAreValidAndTakeTheStepsOfPyTorchsChecker) {
  struct Case {
    const char* spec;
    Shape shape;
    int steps;
  };
  const Shape plain{.stages = 4, .micro_batches = 8};
  const Shape chunked{.stages = 8, .chunks = 2, .micro_batches = 8};
  for (const Case& c : {Case{"gpipe:backward=ascending", plain, 72},
                        {"1f1b", plain, 82},
                        {"interleaved-1f1b", chunked, 182},
                        {"looped-bfs", chunked, 176},
                        {"zb-h1", plain, 85},
                        {"zb-h2", plain, 82},
                        {"interleaved-zb", chunked, 188},
                        {"zb-v", chunked, 172},
                        {"hanayo", chunked, 156}}) {
    const ActionTable bare = table_of(ScheduleSpec::parse(c.spec).make(c.shape));
    const ActionTable waiting = with_send_waits(with_messages(bare));
    EXPECT_EQ(unit_steps(waiting, c.shape), c.steps) << c.spec;
    const std::string whole = pipeline_csv(with_send_waits(
        with_messages(with_reduction_waits(with_sharding(bare, c.shape.micro_batches)))));
    for (const Sends sends : {Sends::buffered, Sends::rendezvous, Sends::grouped}) {
      EXPECT_THAT(violations(whole, sends), IsEmpty()) << c.spec;
    }
  }
}

}  // namespace
}  // namespace unlatch::files
