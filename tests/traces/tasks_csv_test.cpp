// The tasks CSV: written exactly, read back strictly.
#include "traces/tasks_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <sstream>

#include "schedules/error.h"
#include "tests/traces/hand_made.h"
#include "traces/input_file.h"

namespace unlatch {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::HandMade;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

std::string csv(const HandMade& made) {
  std::ostringstream out;
  write_tasks_csv(out, made.graph(), made.timeline);
  return out.str();
}

HandMade with_send_and_hidden_tasks() {
  HandMade made(Shape{.stages = 2, .micro_batches = 2, .batches = 3});
  made.lane(0).lane(0, Engine::link_forward).lane(1);
  const TaskId f0 = made.add(Op::forward, 0, 5, 0, 250us, 1750us);
  const TaskId push = made.add(Op::push_forward, 0, 5, 0, 1750us, 1750us, {{f0, EdgeKind::order}});
  const TaskId send =
      made.add(Op::send_forward, 0, 5, 1, 1750us, 1750us + 250ns, {{push, EdgeKind::activation}});
  made.add(Op::forward, 1, 5, 2, 1750us + 250ns, 3ms, {{send, EdgeKind::activation}});
  made.add(Op::update, 1, 5, 2, 3ms, 3ms);
  return made;
}

constexpr std::string_view head =
    "task,kind,stage,batch,microbatch,rank,lane,start_ms,end_ms,reads_version,writes_version\n";

TEST(TasksCsv, ListsTasksAndSendsWithExactTimes) {
  EXPECT_EQ(csv(with_send_and_hidden_tasks()),
            std::string(head) +
                "0F5,F,0,2,5,0,compute,0.25,1.75,0,\n"
                "0SEND_F5,SEND_F,0,2,5,0,send_forward,1.75,1.75025,,\n"
                "1F5,F,1,2,5,1,compute,1.75025,3,0,\n"
                "1U5,U,1,2,,1,compute,3,3,5,6\n");
}

TEST(TasksCsv, OrdersByStartThenRankThenLaneThenTask) {
  HandMade made(Shape{.stages = 2, .batches = 3});
  made.lane(0).lane(0, Engine::recompute).lane(1);
  made.add(Op::forward, 1, 2, 2, 0ms, 1ms);
  made.add(Op::recompute, 0, 0, 1, 0ms, 1ms);
  made.add(Op::update, 0, 0, 0, 0ms, 0ms);
  made.add(Op::forward, 0, 1, 0, 0ms, 1ms);
  const TaskList list = parse_tasks_csv(csv(made), "x");
  std::vector<std::string> labels;
  for (const TimedTask& task : list.tasks) labels.push_back(task.label);
  EXPECT_THAT(labels, ::testing::ElementsAre("0F1", "0U0", "0R0", "1F2"));
}

TEST(TasksCsv, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  const HandMade made = with_send_and_hidden_tasks();
  write_tasks_csv(folder / "tasks.csv.gz", made.graph(), made.timeline);
  const TaskList expected = task_list(made.graph(), made.timeline, "run");
  EXPECT_EQ(parse_tasks_csv(read_text(folder / "tasks.csv.gz"), "x").tasks, expected.tasks);
  EXPECT_EQ(expected.tasks.size(), 4u);
}

TEST(TasksCsv, KeepsNanosecondsOfLongRuns) {
  HandMade made(Shape{.stages = 1});
  made.lane(0);
  made.add(Op::forward, 0, 0, 0, nanoseconds(999'999'999'999'999),
           nanoseconds(1'000'000'000'000'001));
  EXPECT_EQ(parse_tasks_csv(csv(made), "x").tasks.front().span, made.timeline.spans.front());
}

TEST(TasksCsv, IsTheSameTwiceAndInALocaleWithDecimalCommas) {
  const HandMade made = with_send_and_hidden_tasks();
  const std::string first = csv(made);
  EXPECT_EQ(first, csv(made));
  const std::string old_locale = std::setlocale(LC_ALL, nullptr);
  struct CommaNumbers : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\1"; }
  };
  const std::locale old =
      std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
  EXPECT_EQ(first, csv(made));
  EXPECT_EQ(parse_tasks_csv(first, "x").tasks.front().span.start, 250us);
  std::locale::global(old);
  std::setlocale(LC_ALL, old_locale.c_str());
}

TEST(TasksCsv, AcceptsLineEndsAndByteOrderMarkOfSpreadsheets) {
  std::string text = csv(with_send_and_hidden_tasks());
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '\r');
  }
  EXPECT_EQ(parse_tasks_csv("\xEF\xBB\xBF" + text, "x").tasks.size(), 4u);
}

TEST(TasksCsv, NamesFileLineAndColumnOfAFault) {
  const auto message = [](std::string_view line) {
    return [text = fmt::format("{}{}\n", head, line)] { parse_tasks_csv(text, "run.csv"); };
  };
  EXPECT_THAT([] { parse_tasks_csv("a,b,c\n1,2,3\n", "run.csv"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("run.csv"), HasSubstr("'a,b,c'"))));
  EXPECT_THAT(message("0F0,F,0,0,0,0,comp"),
              ThrowsMessage<Error>(AllOf(HasSubstr("line 2"), HasSubstr("7 fields, not 11"))));
  EXPECT_THAT(message("0F0,F,0,0,0,x,compute,0,1,0,"),
              ThrowsMessage<Error>(HasSubstr("line 2: rank is 'x', not a whole number from 0")));
  EXPECT_THAT(message("0F0,F,0,0,0,-1,compute,0,1,0,"), ThrowsMessage<Error>(HasSubstr("rank")));
  for (const std::string_view bad : {"nan", "inf", "1e99", "", "0;5", "1.5ms"}) {
    EXPECT_THAT(message(fmt::format("0F0,F,0,0,0,0,compute,{},1,0,", bad)),
                ThrowsMessage<Error>(HasSubstr("start_ms is")));
  }
  // Each fits the nanoseconds of 64 bits, their difference does not.
  EXPECT_THAT(message("0F0,F,0,0,0,0,compute,-6e12,6e12,0,"),
              ThrowsMessage<Error>(HasSubstr("start_ms is")));
  EXPECT_THAT(message("0F0,F,0,0,0,0,compute,2,1,0,"), ThrowsMessage<Error>(HasSubstr("end_ms")));
  EXPECT_THAT(message(",F,0,0,0,0,compute,0,1,0,"),
              ThrowsMessage<Error>(HasSubstr("task is empty")));
}

}  // namespace
}  // namespace unlatch
