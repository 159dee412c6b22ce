// diff: kinds, ranks, the culprit, and runs that cannot be compared.
#include "traces/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/error.h"
#include "tests/traces/hand_made.h"

namespace unlatch {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;
using testing::two_ranks;

TimedTask task(std::string kind, int stage, int micro_batch, nanoseconds start, nanoseconds end) {
  TimedTask timed;
  timed.label = fmt::format("{}{}{}", stage, kind, micro_batch);
  timed.kind = std::move(kind);
  timed.stage = timed.rank = stage;
  timed.micro_batch = micro_batch;
  timed.span = {start, end};
  return timed;
}

TaskList list(std::string source, std::vector<TimedTask> tasks) {
  TaskList made;
  made.source = std::move(source);
  made.tasks = std::move(tasks);
  return made;
}

TEST(Diff, OfARunWithItselfIsOne) {
  const auto made = two_ranks(1ms);
  const TaskList run = task_list(made.graph(), made.timeline, "run");
  const Diff result = diff(run, run);
  ASSERT_EQ(result.by_kind.size(), 3u);
  EXPECT_EQ(result.by_kind[0].kind, "F");
  EXPECT_EQ(result.by_kind[0].predicted, 2ms);
  EXPECT_EQ(result.by_kind[0].ratio(), 1.0);
  EXPECT_EQ(result.by_kind[2].kind, "U");
  EXPECT_EQ(result.by_kind[2].ratio(), std::nullopt);
  EXPECT_EQ(result.by_rank.at(1).measured, 2ms);
  EXPECT_EQ(result.makespan.measured, 4ms);
  EXPECT_EQ(result.worst_deviation, 0);
  EXPECT_EQ(result.culprit_rank, std::nullopt);
}

TEST(Diff, AddsUpKindsAndRanksAndFindsTheWorst) {
  const TaskList predicted = list("p", {task("F", 0, 0, 0ms, 10ms), task("F", 1, 0, 10ms, 20ms),
                                        task("B", 1, 0, 20ms, 40ms), task("B", 0, 0, 40ms, 60ms)});
  const TaskList measured = list("m", {task("B", 0, 0, 45ms, 65ms), task("F", 1, 0, 10ms, 21ms),
                                       task("B", 1, 0, 21ms, 45ms), task("F", 0, 0, 0ms, 10ms)});
  const Diff result = diff(predicted, measured);
  EXPECT_DOUBLE_EQ(result.by_kind.at(0).ratio().value(), 1.05);
  EXPECT_DOUBLE_EQ(result.by_kind.at(1).ratio().value(), 1.1);
  EXPECT_EQ(result.by_rank.at(1).predicted, 30ms);
  EXPECT_EQ(result.by_rank.at(1).measured, 35ms);
  EXPECT_EQ(result.culprit_rank, 1);
  EXPECT_EQ(result.worst, "rank 1");
  EXPECT_NEAR(result.worst_deviation, 1.0 / 6, 1e-12);
}

TEST(Diff, WithTheMedianForgivesASlowFirstTask) {
  std::vector<TimedTask> predicted;
  std::vector<TimedTask> measured;
  const std::vector<nanoseconds> lengths = {900us, 101us, 99us, 100us, 102us, 98us};
  for (int i = 0; i < 6; ++i) {
    predicted.push_back(task("F", 0, i, i * 1ms, i * 1ms + 100us));
    measured.push_back(task("F", 0, i, i * 1ms, i * 1ms + lengths[static_cast<std::size_t>(i)]));
  }
  const Diff by_median = diff(list("p", predicted), list("m", measured), Statistic::median);
  EXPECT_EQ(by_median.by_kind.at(0).measured, 100us + 500ns);
  EXPECT_NEAR(diff(list("p", predicted), list("m", measured)).by_kind.at(0).ratio().value(),
              1400.0 / 600, 1e-12);
}

// O35: the reduction makes all ranks end together; only their own work tells who is slow.
TEST(Diff, FindsTheStragglerThatABarrierHides) {
  std::vector<TimedTask> predicted;
  std::vector<TimedTask> measured;
  for (int rank = 0; rank < 4; ++rank) {
    const nanoseconds compute = rank == 2 ? 300us : 100us;
    predicted.push_back(task("B", rank, 0, 0us, 100us));
    predicted.push_back(task("AR", rank, 0, 100us, 120us));
    measured.push_back(task("B", rank, 0, 0us, compute));
    measured.push_back(task("AR", rank, 0, compute, 320us));
  }
  const Diff result = diff(list("p", predicted), list("m", measured));
  EXPECT_EQ(result.culprit_rank, 2);
  EXPECT_EQ(result.by_rank.at(2).ratio(), 3.0);
  EXPECT_EQ(result.by_rank.at(0).ratio(), 1.0);
}

TEST(Diff, WeighsTimeThatWasNotPredictedByItsShare) {
  const TaskList predicted =
      list("p", {task("F", 0, 0, 0ms, 100ms), task("U", 0, 0, 100ms, 100ms)});
  const TaskList measured = list("m", {task("F", 0, 0, 0ms, 100ms), task("U", 0, 0, 100ms, 105ms)});
  const Diff result = diff(predicted, measured);
  EXPECT_NEAR(result.worst_deviation, 0.05, 1e-12);
  EXPECT_EQ(result.by_kind.at(1).ratio(), std::nullopt);
}

TEST(Diff, CountsALongerRunOfEqualTasks) {
  const TaskList predicted = list("p", {task("F", 0, 0, 0ms, 1ms), task("F", 0, 1, 1ms, 2ms)});
  const TaskList measured = list("m", {task("F", 0, 0, 0ms, 1ms), task("F", 0, 1, 3ms, 4ms)});
  const Diff result = diff(predicted, measured);
  EXPECT_EQ(result.worst, "makespan");
  EXPECT_DOUBLE_EQ(result.worst_deviation, 1);
}

TEST(Diff, NamesTheFirstTasksThatAreMissing) {
  std::vector<TimedTask> tasks;
  for (int i = 0; i < 9; ++i) tasks.push_back(task("F", 0, i, i * 1ms, i * 1ms + 1ms));
  const TaskList many = list("many.json", tasks);
  tasks.resize(2);
  const TaskList few = list("few.csv", tasks);
  EXPECT_THAT([&] { diff(many, few); },
              ThrowsMessage<Error>(AllOf(HasSubstr("many.json and few.csv"), HasSubstr("0F2, 0F3"),
                                         HasSubstr("7 of 9"), Not(HasSubstr("0F8")))));
  EXPECT_THAT([&] { diff(few, many); }, ThrowsMessage<Error>(HasSubstr("many.json and few.csv")));
}

TEST(Diff, NamesATaskThatIsThereTwice) {
  const TaskList twice = list("t.csv", {task("F", 0, 0, 0ms, 1ms), task("F", 0, 0, 1ms, 2ms)});
  EXPECT_THAT([&] { diff(twice, twice); },
              ThrowsMessage<Error>(HasSubstr("holds the task 0F0 twice")));
}

TEST(Diff, LeavesOutMessagesThatOnlyOneSideHasAndSaysSo) {
  const TaskList predicted = list("p", {task("F", 0, 0, 0ms, 1ms), task("SEND_F", 0, 0, 1ms, 2ms)});
  const TaskList measured = list("m", {task("F", 0, 0, 0ms, 1ms)});
  const Diff result = diff(predicted, measured);
  EXPECT_THAT(result.notes, ::testing::ElementsAre(HasSubstr("SEND_F")));
  EXPECT_EQ(result.by_kind.size(), 1u);
  EXPECT_THAT(diff(predicted, predicted).notes, IsEmpty());
}

}  // namespace
}  // namespace unlatch
