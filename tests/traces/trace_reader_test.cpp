// trace_reader: our own traces come back, odd ones get a warning, damaged ones a clear error.
#include "traces/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "schedules/error.h"
#include "tests/traces/hand_made.h"
#include "traces/atomic_file.h"
#include "traces/chrome_trace.h"
#include "traces/tasks_csv.h"

namespace unlatch {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::HandMade;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;
using testing::two_ranks;
using ::testing::UnorderedElementsAreArray;

TEST(ReadTasks, GivesTheSameTasksFromATraceAndFromACsv) {
  const TemporaryFolder folder;
  const HandMade made = two_ranks(250us);
  write_chrome_trace(folder / "a.json", made.graph(), made.timeline);
  write_chrome_trace(folder / "a.json.gz", made.graph(), made.timeline);
  write_tasks_csv(folder / "a.csv", made.graph(), made.timeline);
  const TaskList expected = task_list(made.graph(), made.timeline, "run");
  for (const char* name : {"a.json", "a.json.gz", "a.csv"}) {
    const TaskList list = read_tasks(folder / name);
    EXPECT_THAT(list.tasks, UnorderedElementsAreArray(expected.tasks)) << name;
    EXPECT_THAT(list.warnings, IsEmpty());
  }
  EXPECT_EQ(read_tasks(folder / "a.json").schedule, "hand-made");
}

// O27, through the API: names that viewers and parsers choke on.
TEST(ReadTasks, BringsAwkwardNamesBack) {
  const TemporaryFolder folder;
  const HandMade made = two_ranks(1us).named("file:C:\\net\\\"x\"\n.csv");
  const ChromeTraceOptions options{.stage_names = {"conv \"3x3\"", "C:\\net\\block", "tab\tand\x01",
                                                   "a]}b",
                                                   "Gr\xC3\xB6\xC3\x9F"
                                                   "e",
                                                   "bad\xFF"
                                                   "byte"}};
  write_chrome_trace(folder / "a.json", made.graph(), made.timeline, options);
  const TaskList list = read_tasks(folder / "a.json");
  EXPECT_EQ(list.schedule, made.graph().schedule());
  std::vector<std::string> expected = options.stage_names;
  expected.back() =
      "bad\xEF\xBF\xBD"
      "byte";
  EXPECT_EQ(list.stage_names, expected);
}

// O24: the hand-made bad file.
TEST(ParseChromeTrace, WarnsAboutSpansThatHalfOverlap) {
  const TaskList list = parse_chrome_trace(R"({"traceEvents":[
 {"name":"F0","ph":"X","pid":1,"tid":1,"ts":0,"dur":100},
 {"name":"F1","ph":"X","pid":1,"tid":1,"ts":80,"dur":40}]})",
                                           "bad.json");
  EXPECT_THAT(list.warnings, ElementsAre(AllOf(HasSubstr("bad.json"), HasSubstr("'F0'"),
                                               HasSubstr("'F1'"), HasSubstr("20 us"))));
  EXPECT_EQ(list.tasks.size(), 2u);
}

TEST(ParseChromeTrace, TakesNestedAndTouchingSpansAsTheyAre) {
  const TaskList list = parse_chrome_trace(R"([
 {"name":"child","ph":"X","pid":1,"tid":1,"ts":10,"dur":20},
 {"name":"next","ph":"X","pid":1,"tid":1,"ts":100,"dur":0},
 {"name":"parent","ph":"X","pid":1,"tid":1,"ts":0,"dur":100},
 {"name":"other","ph":"X","pid":1,"tid":2,"ts":50,"dur":100},
 {}])",
                                           "x");
  EXPECT_THAT(list.warnings, IsEmpty());
  EXPECT_EQ(list.tasks.size(), 4u);
}

// O34: displayTimeUnit is no unit of the numbers.
TEST(ParseChromeTrace, CountsMicrosecondsWhateverTheDisplayUnit) {
  for (const std::string_view unit : {"ns", "ms"}) {
    const TaskList list = parse_chrome_trace(fmt::format(R"({{"displayTimeUnit":"{}","traceEvents":[
          {{"name":"f","ph":"X","pid":1,"tid":1,"ts":1000,"dur":500}}]}})",
                                                         unit),
                                             "x");
    EXPECT_EQ(list.tasks.at(0).span, (Span{1000us, 1500us}));
  }
}

TEST(ParseChromeTrace, KeepsNanosecondsOnALargeBase) {
  const TaskList list = parse_chrome_trace(
      R"([{"name":"f","ph":"X","pid":1,"tid":1,"ts":1700000000000000,"dur":0.25},
          {"name":"g","ph":"X","pid":1,"tid":1,"ts":1e3,"dur":0.001}])",
      "x");
  EXPECT_EQ(list.tasks.at(0).span.start, nanoseconds(1'700'000'000'000'000'000));
  EXPECT_EQ(list.tasks.at(0).span.length(), 250ns);
  EXPECT_EQ(list.tasks.at(1).span, (Span{1ms, 1ms + 1ns}));
}

TEST(ParseChromeTrace, TakesRankAndLaneFromNamesWhereverTheyStand) {
  const TaskList list = parse_chrome_trace(R"([
 {"name":"2F7","ph":"X","pid":9,"tid":1,"ts":0,"dur":1},
 {"name":"AR","ph":"X","pid":3,"tid":4,"ts":0,"dur":1},
 {"name":"process_name","ph":"M","pid":9,"tid":1,"args":{"name":"rank 5"}},
 {"name":"thread_name","ph":"M","pid":9,"tid":1,"args":{"name":"compute"}}])",
                                           "x");
  const TimedTask expected{"2F7", "F", 2, -1, 7, 5, "compute", {0us, 1us}};
  EXPECT_EQ(list.tasks.at(0), expected);
  EXPECT_EQ(list.tasks.at(1).kind, "AR");
  EXPECT_EQ(list.tasks.at(1).rank, 2);
  EXPECT_EQ(list.tasks.at(1).lane, "thread 4");
}

TEST(ParseChromeTrace, NamesTheEventThatIsWrong) {
  const auto parsing = [](std::string_view event) {
    return [text = fmt::format(R"([{{"name":"F0","ph":"X","pid":1,"tid":1,"ts":0,"dur":1}},{}])",
                               event)] { parse_chrome_trace(text, "t.json"); };
  };
  const auto fails = [](std::string_view what) {
    return ThrowsMessage<Error>(AllOf(HasSubstr("t.json: event 1"), HasSubstr(std::string(what))));
  };
  EXPECT_THAT(parsing(R"({"name":"F1","ph":"X","pid":1,"tid":1,"ts":0})"), fails("no 'dur'"));
  EXPECT_THAT(parsing(R"({"name":"F1","ph":"X","pid":1,"tid":1,"dur":0})"), fails("no 'ts'"));
  EXPECT_THAT(parsing(R"({"ph":"X","pid":1,"tid":1,"ts":0,"dur":0})"), fails("no 'name'"));
  EXPECT_THAT(parsing(R"({"name":"F1","ph":"X","ts":0,"dur":0})"), fails("no 'pid'"));
  EXPECT_THAT(parsing(R"({"name":"F1"})"), fails("no 'ph'"));
  EXPECT_THAT(parsing(R"({"name":"F1","ph":"X","pid":1,"tid":1,"ts":0,"dur":-5})"),
              fails("'dur' is not 0 or more"));
  EXPECT_THAT(parsing(R"({"name":"F1","ph":"X","pid":1,"tid":1,"ts":"soon","dur":5})"),
              fails("'ts' is not a number"));
  EXPECT_THAT(parsing(R"({"name":"F1","ph":"X","pid":1,"tid":1,"ts":1e300,"dur":5})"),
              fails("'ts' is not a number"));
  EXPECT_THAT(parsing(R"({"name":"F1","ph":"X","pid":-1,"tid":1,"ts":1,"dur":5})"), fails("'pid'"));
  EXPECT_THAT(parsing(R"({"name":3,"ph":"X","pid":1,"tid":1,"ts":1,"dur":5})"), fails("'name'"));
  EXPECT_THAT(parsing(R"({"name":"process_name","ph":"M","pid":1})"), fails("no 'args'"));
  EXPECT_THAT(parsing("5"), ThrowsMessage<Error>(HasSubstr("must be objects, but one is 5")));
  EXPECT_THAT(parsing("[1,2]"), ThrowsMessage<Error>(HasSubstr("must be objects")));
}

TEST(ParseChromeTrace, RefusesEveryPrefixOfATrace) {
  const TemporaryFolder folder;
  const HandMade made = two_ranks(1us);
  std::ostringstream out;
  write_chrome_trace(out, made.graph(), made.timeline);
  std::string text = out.str();
  text.pop_back();  // the line end after the last brace
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(parse_chrome_trace(std::string_view(text).substr(0, size), "x"), Error) << size;
  }
  EXPECT_THAT([&] { parse_chrome_trace(std::string_view(text).substr(0, 500), "cut.json"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cut.json"), HasSubstr("ends too early"))));
}

TEST(ParseChromeTrace, RefusesWhatIsNoTrace) {
  EXPECT_THAT([] { parse_chrome_trace(R"({"a":1})", "x.json"); },
              ThrowsMessage<Error>(HasSubstr("no list 'traceEvents'")));
  EXPECT_THROW(parse_chrome_trace(R"({"traceEvents":5})", "x"), Error);
  EXPECT_THROW(parse_chrome_trace(R"({"traceEvents":[{"ts":NaN}]})", "x"), Error);
}

TEST(ParseChromeTrace, RefusesTimesThatNanosecondsCannotHold) {
  const auto parsing = [](std::string_view events) {
    return [events] { parse_chrome_trace(fmt::format("[{}]", events), "x"); };
  };
  const auto fails = [](const char* word) { return ThrowsMessage<Error>(HasSubstr(word)); };
  EXPECT_THAT(parsing(R"({"name":"0F0","ph":"X","pid":1,"tid":1,"ts":8e15,"dur":8e15})"),
              fails("'ts'"));
  EXPECT_THAT(parsing(R"({"name":"0F0","ph":"X","pid":1,"tid":1,"ts":0,"dur":8e15})"),
              fails("'dur'"));
  std::string many;  // each is short enough, together they are not
  for (int i = 0; i < 5; ++i) {
    many += fmt::format(R"({}{{"name":"0F{}","ph":"X","pid":1,"tid":1,"ts":0,"dur":2e15}})",
                        i == 0 ? "" : ",", i);
  }
  EXPECT_THAT(parsing(many), fails("292 years"));
  EXPECT_THAT(parsing(R"({"name":"0F0","ph":"X","pid":1,"tid":1,"ts":0,"dur":1,)"
                      R"("args":{"stage":4294967297}})"),
              fails("'stage'"));
}

TEST(ReadTasks, ReadsATraceBehindAByteOrderMark) {
  const TemporaryFolder folder;
  std::ofstream(folder / "t.json") << "\xEF\xBB\xBF"
                                      R"([{"name":"0F0","ph":"X","pid":1,"tid":1,"ts":0,"dur":1}])";
  EXPECT_EQ(read_tasks(folder / "t.json").tasks.size(), 1u);
}

TEST(ReadTasks, NamesAFileThatIsEmptyOrMissing) {
  const TemporaryFolder folder;
  std::ofstream(folder / "empty.json").close();
  EXPECT_THAT([&] { read_tasks(folder / "empty.json"); },
              ThrowsMessage<Error>(HasSubstr("empty.json: the file is empty")));
  EXPECT_THAT([&] { read_tasks(folder / "none.json"); },
              ThrowsMessage<Error>(HasSubstr("none.json")));
}

}  // namespace
}  // namespace unlatch
