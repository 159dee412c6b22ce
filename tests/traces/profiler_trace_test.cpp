// PyTorch profiles by hand: which ranges are read, and from which clock.
#include "traces/profiler_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/error.h"

namespace unlatch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string event(const char* category, const char* name, const char* ts, const char* dur,
                  int pid = 100, int tid = 100) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}}})",
      category, name, pid, tid, ts, dur);
}

std::string file(const std::vector<std::string>& events, const char* before = "") {
  return fmt::format(R"({{{} "traceEvents": [{}]}})", before, fmt::join(events, ", "));
}

ProfilerTrace parsed(const std::string& text) {
  return parse_profiler_trace(text, "t.json", "PP:");
}

std::string error_of(const std::string& text) {
  try {
    parsed(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

constexpr nanoseconds us(std::int64_t t) { return nanoseconds(t * 1000); }

// The form of current versions: relative times, three decimals.
TEST(ProfilerTrace, ReadsTheRangesOfAPrefix) {
  const ProfilerTrace trace = parsed(file(
      {event("user_annotation", "PP:0F1", "40.500", "10.250"),
       event("user_annotation", "PP:0F0", "20.000", "12.000"),
       event("user_annotation", "PP:0F0", "10.000", "11.001"),
       event("cpu_op", "aten::mm", "21.000", "1.000"),
       R"({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler", "pid": "Spans", "ts": 1})",
       R"({"ph": "s", "id": 1, "name": "PP:ac2g", "cat": "ac2g", "pid": 1, "tid": 1, "ts": 1})",
       R"({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}})"},
      R"("schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4},
         "baseTimeNanoseconds": 1700000000000000000,)"));
EXPECT_EQ(trace.rank, 2);
EXPECT_EQ(trace.world_size, 4);
EXPECT_FALSE(trace.has_device);
ASSERT_EQ(trace.ranges.size(), 2U);
EXPECT_EQ(trace.ranges[0].name, "0F0");
EXPECT_THAT(trace.ranges[0].on_host, ElementsAre(nanoseconds(11001), us(12)));
EXPECT_THAT(trace.ranges[1].on_host, ElementsAre(nanoseconds(10250)));
EXPECT_THAT(trace.ranges[1].on_device, IsEmpty());
}

// Older files: absolute microseconds since 1970, a bare list too.
TEST(ProfilerTrace, ReadsAbsoluteTimesAlike) {
  const std::string events =
      event("user_annotation", "PP:1B0", "1700000000000123.500", "8.125") + ", " +
      event("gpu_user_annotation", "PP:1B0", "1700000000000130", "6.500", 0, 7);
  const ProfilerTrace trace = parsed("[" + events + "]");
  EXPECT_EQ(trace.rank, -1);
  EXPECT_TRUE(trace.has_device);
  ASSERT_EQ(trace.ranges.size(), 1U);
  EXPECT_THAT(trace.ranges[0].on_host, ElementsAre(nanoseconds(8125)));
  EXPECT_THAT(trace.ranges[0].on_device, ElementsAre(nanoseconds(6500)));
}

// Two steps on two streams of a GPU, which overlap; a third stream saw the first step only.
TEST(ProfilerTrace, JoinsTheStreamsOfARange) {
  const ProfilerTrace trace =
      parsed(file({event("gpu_user_annotation", "PP:0B0", "100", "20", 0, 7),
                   event("gpu_user_annotation", "PP:0B0", "110", "25", 0, 20),
                   event("gpu_user_annotation", "PP:0B0", "90", "500", 0, 24),
                   event("gpu_user_annotation", "PP:0B0", "300", "10", 0, 20),
                   event("gpu_user_annotation", "PP:0B0", "305", "30", 0, 7)}));
  ASSERT_EQ(trace.ranges.size(), 1U);
  EXPECT_THAT(trace.ranges[0].on_device, ElementsAre(us(35), us(35)));
}

TEST(ProfilerTrace, NamesTheEventOfAFault) {
  const std::string good = event("user_annotation", "PP:0F0", "1", "1");
  EXPECT_THAT(error_of(file({good, event("user_annotation", "PP:0F1", "1", "-2")})),
              HasSubstr("t.json: event 1 "));
  EXPECT_THAT(error_of(file({good, event("user_annotation", "PP:0F1", "1", "\"x\"")})),
              HasSubstr("'dur' is not a number of microseconds"));
  EXPECT_THAT(error_of(file({R"({"ph": "X", "name": "PP:0F0", "ts": 3})"})),
              HasSubstr("has no 'dur'"));
  EXPECT_THAT(error_of(file({R"({"name": "PP:0F0", "ts": 3})"})), HasSubstr("has no 'ph'"));
  const std::string text = file({good});
  EXPECT_THAT(error_of(text.substr(0, text.size() - 9)), HasSubstr("the file ends too early"));
  EXPECT_THAT(error_of("{\"traceName\": \"x\"}"), HasSubstr("no list 'traceEvents'"));
}

}  // namespace
}  // namespace unlatch
