// Chrome trace writer: what viewers need, checked on strictly parsed JSON.
#include "traces/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "schedules/error.h"
#include "schedules/registry.h"
#include "schedules/transfers.h"
#include "tests/support/variants.h"
#include "tests/traces/hand_made.h"
#include "traces/input_file.h"

namespace unlatch {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::earliest;
using ::testing::ElementsAre;
using testing::HandMade;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;
using testing::two_ranks;
using testing::UnitCosts;

std::string trace(const TaskGraph& graph, const Timeline& timeline,
                  const ChromeTraceOptions& options = {}) {
  std::ostringstream out;
  write_chrome_trace(out, graph, timeline, options);
  return out.str();
}

/// The events of a kind, in the order of the file. The parser refuses NaN and Infinity.
std::vector<json> events(const std::string& text, std::string_view phase) {
  std::vector<json> found;
  const json document = json::parse(text);
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

std::int64_t ns(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

struct Slice {
  std::int64_t start, end;
  std::string name;
  int stage, micro_batch;
};

using Tracks = std::map<std::pair<int, int>, std::vector<Slice>>;

Tracks tracks(const std::string& text) {
  Tracks found;
  for (const json& event : events(text, "X")) {
    const std::int64_t start = ns(event["ts"]);
    found[{event["pid"], event["tid"]}].push_back({start, start + ns(event["dur"]), event["name"],
                                                   event["args"]["stage"],
                                                   event["args"].value("microbatch", -1)});
  }
  return found;
}

/// O24: the spans of each track follow each other or nest.
void expect_no_half_overlaps(const std::string& text) {
  for (const auto& [track, slices] : tracks(text)) {
    for (std::size_t i = 1; i < slices.size(); ++i) {
      EXPECT_GE(slices[i].start, slices[i - 1].end) << slices[i - 1].name << " " << slices[i].name;
    }
  }
}

/// The span that an arrow's end lies in; one without length only when there is no other.
const Slice* slice_at(const Tracks& all, const json& arrow_end) {
  const std::int64_t at = ns(arrow_end["ts"]);
  const Slice* found = nullptr;
  for (const Slice& slice : all.at({arrow_end["pid"], arrow_end["tid"]})) {
    if (slice.start <= at && at < slice.end) return &slice;
    if (slice.start == at && slice.end == at && found == nullptr) found = &slice;
  }
  return found;
}

/// O28: each id one start in a sender and one finish in the receiver of the same message.
/// `elsewhere`: a message may be used by the task of another micro-batch. `error_from`: the stage
/// that all gradients come from.
void expect_arrows_that_bind(const std::string& text, bool elsewhere = false,
                             std::optional<Stage> error_from = {}) {
  const Tracks all = tracks(text);
  std::map<int, json> starts;
  for (const json& start : events(text, "s")) {
    EXPECT_TRUE(starts.emplace(start["id"], start).second) << "id twice";
  }
  std::set<int> finished;
  for (const json& finish : events(text, "f")) {
    ASSERT_TRUE(starts.contains(finish["id"]));
    EXPECT_TRUE(finished.insert(finish["id"].get<int>()).second) << "id twice";
    const json& start = starts[finish["id"]];
    EXPECT_EQ(finish["bp"], "e");
    EXPECT_EQ(finish["name"], start["name"]);
    EXPECT_EQ(finish["cat"], start["cat"]);
    EXPECT_GE(ns(finish["ts"]), ns(start["ts"]));
    EXPECT_NE(finish["pid"], start["pid"]);
    const Slice* from = slice_at(all, start);
    const Slice* to = slice_at(all, finish);
    ASSERT_NE(from, nullptr);
    ASSERT_NE(to, nullptr);
    if (!elsewhere) {
      EXPECT_EQ(to->micro_batch, from->micro_batch);
    }
    if (start["name"] == "activation" || !error_from) {
      EXPECT_EQ(to->stage - from->stage, start["name"] == "activation" ? 1 : -1);
    } else {
      EXPECT_EQ(from->stage, error_from->value);
    }
  }
  EXPECT_EQ(finished.size(), starts.size());
}

TaskGraph graph_of(std::string_view spec, Shape shape) {
  return ScheduleSpec::parse(spec).make(shape).build();
}

// O25: the first task starts at 0.25 ms and lasts 1.5 ms, another lasts 250 ns.
TEST(ChromeTrace, CountsInMicroseconds) {
  HandMade made(Shape{.stages = 1});
  made.lane(0);
  made.add(Op::forward, 0, 0, 0, 250us, 1750us);
  made.add(Op::backward, 0, 0, 0, 1750us, 1750us + 250ns);
  const std::string text = trace(made.graph(), made.timeline);
  const auto spans = events(text, "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["ts"], 250);
  EXPECT_EQ(spans[0]["dur"], 1500);
  EXPECT_EQ(spans[1]["dur"], 0.25);
  EXPECT_THAT(text, HasSubstr(R"("ts":250.000,"dur":1500.000)"));
}

TEST(ChromeTrace, TellsWhatEachTaskIs) {
  HandMade made(Shape{.stages = 1, .micro_batches = 2, .batches = 2});
  made.lane(0);
  made.add(Op::forward, 0, 3, 0, 0ns, 1ns);
  made.add(Op::update, 0, 3, 0, 1ns, 1ns);
  const auto spans = events(trace(made.graph(), made.timeline), "X");
  EXPECT_EQ(spans.at(0)["name"], "0F3");
  EXPECT_EQ(spans.at(0)["cat"], "F");
  EXPECT_EQ(spans.at(0)["args"],
            json::parse(R"({"stage":0,"batch":1,"microbatch":3,"reads_version":0})"));
  EXPECT_EQ(spans.at(1)["name"], "0U3");
  EXPECT_EQ(spans.at(1)["args"],
            json::parse(R"({"stage":0,"batch":1,"reads_version":3,"writes_version":4})"));
}

TEST(ChromeTrace, HasAThreadForEachComputeRecomputeAndLinkLaneAndNothingElse) {
  HandMade made(Shape{.stages = 4, .chunks = 2});
  made.lane(0).lane(0, Engine::recompute).lane(0, Engine::link_forward, 0);
  made.lane(0, Engine::link_forward, 2).lane(0, Engine::control).lane(1);
  made.add(Op::pop_forward, 0, 0, 0, 0ns, 0ns);
  made.add(Op::forward, 0, 0, 0, 0ns, 1ns);
  made.add(Op::recompute, 0, 0, 1, 0ns, 1ns);
  made.add(Op::send_forward, 0, 0, 2, 1ns, 2ns);
  made.add(Op::send_forward, 2, 0, 3, 1ns, 2ns);
  made.add(Op::barrier, 0, 0, 4, 2ns, 2ns);
  made.add(Op::forward, 1, 0, 5, 2ns, 3ns);
  const std::string text = trace(made.graph(), made.timeline);
  std::map<std::pair<int, int>, std::string> threads;
  for (const json& event : events(text, "M")) {
    EXPECT_FALSE(event.contains("ts"));
    EXPECT_GE(event["tid"], 1);
    if (event["name"] == "thread_name") {
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
  }
  const std::map<std::pair<int, int>, std::string> expected = {{{1, 1}, "compute"},
                                                               {{1, 2}, "recompute"},
                                                               {{1, 3}, "send_forward of stage 0"},
                                                               {{1, 4}, "send_forward of stage 2"},
                                                               {{2, 1}, "compute"}};
  EXPECT_EQ(threads, expected);
  for (const auto& [track, slices] : tracks(text)) EXPECT_TRUE(threads.contains(track));
  EXPECT_EQ(events(text, "X").size(), 5u);
}

// O30: twelve ranks in order of number.
TEST(ChromeTrace, SortsRanksAsNumbers) {
  HandMade made(Shape{.stages = 12});
  for (int rank = 0; rank < 12; ++rank) made.lane(rank);
  for (int rank = 0; rank < 12; ++rank) made.add(Op::forward, rank, 0, rank, 0ns, 1ns);
  std::map<int, json> sort_index;
  std::map<int, std::string> names;
  for (const json& event : events(trace(made.graph(), made.timeline), "M")) {
    if (event["name"] == "process_sort_index")
      sort_index[event["pid"]] = event["args"]["sort_index"];
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  }
  ASSERT_EQ(sort_index.size(), 12u);
  for (int rank = 0; rank < 12; ++rank) {
    EXPECT_TRUE(sort_index[rank + 1].is_number_integer());
    EXPECT_EQ(sort_index[rank + 1], rank);
    EXPECT_EQ(names[rank + 1], fmt::format("rank {}", rank));
  }
}

// O26: all costs 0.
TEST(ChromeTrace, StaysValidWhenNothingTakesTime) {
  const HandMade made = two_ranks(0ns);
  std::vector<RankMemory> memory(2);
  for (RankMemory& rank : memory) rank.levels.resize(1);
  const std::string text = trace(made.graph(), made.timeline, {.memory = memory});
  EXPECT_EQ(events(text, "X").size(), 5u);
  expect_arrows_that_bind(text);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
}

TEST(ChromeTrace, DrawsArrowsBetweenRanks) {
  for (const nanoseconds unit : {0ns, 1ns, 2ns, 1000ns}) {
    const HandMade made = two_ranks(unit);
    const std::string text = trace(made.graph(), made.timeline);
    EXPECT_EQ(events(text, "s").size(), 2u);
    expect_arrows_that_bind(text);
  }
}

// O29: the levels of O19, one unit a step, in tenths of a tape.
TEST(ChromeTrace, EndsEachCounterWithTheLevelThatStays) {
  HandMade made(Shape{.stages = 1});
  made.lane(0);
  made.add(Op::forward, 0, 0, 0, 0us, 9us);
  const std::vector<std::int64_t> bytes = {0, 10, 20, 16, 26, 22, 16, 12, 6, 0};
  std::vector<RankMemory> memory(1);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    memory[0].levels.push_back({.at = static_cast<int>(i) * 1us, .cause = {}, .bytes = bytes[i]});
  }
  const auto samples = events(trace(made.graph(), made.timeline, {.memory = memory}), "C");
  ASSERT_EQ(samples.size(), 10u);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(samples[i]["args"], (json{{"value", bytes[i]}}));
    EXPECT_EQ(samples[i]["ts"], i);
    EXPECT_EQ(samples[i]["name"], "memory of rank 0");
  }
  memory[0].levels.resize(3);
  const auto fewer = events(trace(made.graph(), made.timeline, {.memory = memory}), "C");
  ASSERT_EQ(fewer.size(), 4u);
  EXPECT_EQ(fewer.back()["ts"], 9);
  EXPECT_EQ(fewer.back()["args"]["value"], 20);
}

TEST(ChromeTrace, CountsTapesWhenNoSizeIsKnown) {
  const HandMade made = two_ranks(1us);
  std::vector<RankMemory> memory(2);
  memory[0].levels = {{.at = 0us, .cause = {}, .activations = 1},
                      {.at = 4us, .cause = {}, .activations = 0}};
  const auto samples = events(trace(made.graph(), made.timeline, {.memory = memory}), "C");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0]["name"], "tapes of rank 0");
  EXPECT_EQ(samples[0]["args"]["value"], 1);
  EXPECT_EQ(samples[1]["args"]["value"], 0);
}

// O52: a window holds the spans that touch it, whole.
TEST(ChromeTrace, HoldsOnlyWhatTouchesTheWindow) {
  const HandMade made = two_ranks(10us);
  std::vector<RankMemory> memory(2);
  memory[1].levels = {{.at = 0us, .cause = {}, .activations = 0},
                      {.at = 10us, .cause = {}, .activations = 1},
                      {.at = 30us, .cause = {}, .activations = 0}};
  const ChromeTraceOptions options{.window = TimeWindow{15us, 30us}, .memory = memory};
  const std::string text = trace(made.graph(), made.timeline, options);
  const auto spans = events(text, "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["name"], "1F0");
  EXPECT_EQ(spans[0]["ts"], 10);
  EXPECT_EQ(spans[0]["dur"], 10);
  EXPECT_EQ(spans[1]["name"], "1B0");
  EXPECT_THAT(events(text, "s"), ElementsAre());
  std::vector<std::pair<double, int>> samples;
  for (const json& sample : events(text, "C")) {
    samples.emplace_back(sample["ts"], sample["args"]["value"]);
  }
  EXPECT_THAT(samples, ElementsAre(std::pair(15.0, 1), std::pair(30.0, 0)));
  EXPECT_THROW(trace(made.graph(), made.timeline, {.window = TimeWindow{5us, 5us}}), Error);
}

TEST(ChromeTrace, HoldsOnlyTheRanksAskedFor) {
  const HandMade made = two_ranks(10us);
  const std::string text = trace(made.graph(), made.timeline, {.ranks = {1}});
  const json document = json::parse(text);
  for (const json& event : document["traceEvents"]) EXPECT_EQ(event["pid"], 2);
  EXPECT_EQ(events(text, "X").size(), 2u);
  EXPECT_THAT([&] { trace(made.graph(), made.timeline, {.ranks = {2}}); },
              ThrowsMessage<Error>(HasSubstr("no rank 2; ranks are 0 to 1")));
}

TEST(ChromeTrace, RefusesATimelineInWhichALaneRunsTwoTasksAtOnce) {
  HandMade made(Shape{.stages = 1, .batches = 2});
  made.lane(0);
  made.add(Op::forward, 0, 0, 0, 0us, 100us);
  made.add(Op::forward, 0, 1, 0, 80us, 120us);
  EXPECT_THAT([&] { trace(made.graph(), made.timeline); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr("0F0"), HasSubstr("0F1"))));
}

TEST(ChromeTrace, LeavesNothingBehindWhenItCannotBeWritten) {
  const TemporaryFolder folder;
  const HandMade made = two_ranks(10us);
  EXPECT_THAT([&] { write_chrome_trace("/dev/full", made.graph(), made.timeline); },
              ThrowsMessage<Error>(HasSubstr("/dev/full")));
  EXPECT_THROW(write_chrome_trace(folder / "no/a.json", made.graph(), made.timeline), Error);
  EXPECT_THROW(write_chrome_trace(folder / "a.json", made.graph(), made.timeline, {.ranks = {7}}),
               Error);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(ChromeTrace, ReportsAStreamThatFails) {
  const HandMade made = two_ranks(10us);
  std::ostringstream out;
  out.setstate(std::ios::failbit);
  EXPECT_THROW(write_chrome_trace(out, made.graph(), made.timeline), Error);
}

// O28 (a): P=4, M=8, 1F1B.
TEST(ChromeTrace, HasOneArrowForEachMessageOf1f1b) {
  const TaskGraph graph = graph_of("1f1b", {.stages = 4, .micro_batches = 8});
  const std::string text = trace(graph, earliest(graph));
  EXPECT_EQ(events(text, "s").size(), 48u);
  EXPECT_EQ(events(text, "f").size(), 48u);
  expect_arrows_that_bind(text);
}

// O24 (a), O28 and O53 for every schedule: with free links, with links, with no costs at all.
TEST(ChromeTrace, IsSoundForEverySchedule) {
  for (const Method& method : methods()) {
    // Ranks that every method takes, two stages a rank where it wants several.
    Shape shape{.stages = 4 * method.chunks.usual, .chunks = method.chunks.usual, .batches = 3};
    shape.micro_batches =
        testing_support::parts_that_run(ScheduleSpec::parse(method.name), shape, {8});
    const TaskGraph free = graph_of(method.name, shape);
    const std::vector<bool> boundaries(static_cast<std::size_t>(free.shape().stages), true);
    const TaskGraph linked =
        with_transfers(free, {.activation = boundaries, .gradient = boundaries});
    int arrows = 0;
    for (const TaskId id : free.ids()) {
      for (const Edge edge : free.edges_into(id))
        arrows += crosses_ranks(free, edge, free.task(id));
    }
    // In DNI, the gradients that train a synthesiser after its last B are used by no task shown.
    const bool elsewhere = method.name == "dni";
    if (elsewhere) arrows -= shape.stages - 1;
    // In DFA, all gradients are made of the error that the last stage found.
    const auto error_from =
        method.name == "dfa" ? std::optional(free.shape().last_stage()) : std::nullopt;
    for (const TaskGraph* graph : {&free, &linked}) {
      for (const UnitCosts costs : {UnitCosts{}, UnitCosts{1500ns, 3001ns, 777ns}}) {
        const Timeline timeline = earliest(*graph, costs);
        const std::string text = trace(*graph, timeline);
        SCOPED_TRACE(method.name);
        expect_no_half_overlaps(text);
        expect_arrows_that_bind(text, elsewhere, error_from);
        EXPECT_EQ(events(text, "s").size(), static_cast<std::size_t>(arrows));
        EXPECT_EQ(text, trace(*graph, timeline));
      }
      const Timeline nothing = earliest(*graph, {0ns, 0ns, 0ns});
      EXPECT_EQ(events(trace(*graph, nothing), "s").size(), static_cast<std::size_t>(arrows));
    }
  }
}

TEST(ChromeTraceSize, CountsEventsAndAboutTheBytes) {
  const TaskGraph graph = graph_of("1f1b", {.stages = 8, .micro_batches = 64, .batches = 4});
  const Timeline timeline = earliest(graph, {1ms, 2ms, 1ms});
  for (const bool part : {false, true}) {
    ChromeTraceOptions options;
    if (part) options = {.ranks = {2, 3}, .window = TimeWindow{100ms, 300ms}};
    const std::string text = trace(graph, timeline, options);
    const TraceSize size = chrome_trace_size(graph, timeline, options);
    EXPECT_EQ(size.events, static_cast<std::int64_t>(json::parse(text)["traceEvents"].size()));
    EXPECT_NEAR(static_cast<double>(size.bytes), static_cast<double>(text.size()),
                0.15 * static_cast<double>(text.size()));
  }
}

}  // namespace
}  // namespace unlatch
