// draw: rows, columns and labels of small timelines.
#include "traces/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "schedules/error.h"
#include "schedules/registry.h"
#include "tests/traces/hand_made.h"

namespace unlatch {
namespace {

using namespace std::chrono_literals;
using testing::HandMade;
using testing::two_ranks;

TEST(Draw, OneRowALaneOneColumnAUnit) {
  const HandMade made = two_ranks(1ns);
  EXPECT_EQ(draw(made.graph(), made.timeline, 1ns),
            "rank 0  F0  .   .   B0\n"
            "rank 1  .   F0  B0  .\n");
}

TEST(Draw, ShowsADashForEachFurtherUnit) {
  const HandMade made = two_ranks(3ms);
  EXPECT_EQ(draw(made.graph(), made.timeline, 1ms),
            "rank 0  F0  -   -   .   .   .   .   .   .   B0  -   -\n"
            "rank 1  .   .   .   F0  -   -   B0  -   -   .   .   .\n");
}

TEST(Draw, GivesTheSecondComputeLaneARowAndLinksNone) {
  HandMade made(Shape{.stages = 1, .batches = 12});
  made.lane(0).lane(0, Engine::recompute).lane(0, Engine::link_forward);
  made.add(Op::forward, 0, 11, 0, 0ns, 1ns);
  made.add(Op::recompute, 0, 9, 1, 0ns, 1ns);
  made.add(Op::send_forward, 0, 11, 2, 1ns, 5ns);
  made.add(Op::backward, 0, 9, 0, 1ns, 3ns);
  EXPECT_EQ(draw(made.graph(), made.timeline, 1ns),
            "rank 0    F11  B9   -    .    .\n"
            "rank 0 R  R9   .    .    .    .\n");
}

TEST(Draw, NamesTheStageWhenARankHoldsSeveral) {
  HandMade made(Shape{.stages = 2, .chunks = 2});
  made.lane(0);
  made.add(Op::forward, 0, 0, 0, 0ns, 1ns);
  made.add(Op::forward, 1, 0, 0, 1ns, 2ns);
  EXPECT_EQ(draw(made.graph(), made.timeline, 1ns), "rank 0  0F0  1F0\n");
}

TEST(Draw, LeavesOutHiddenTasksAndThoseWithoutLength) {
  HandMade made(Shape{.stages = 1});
  made.lane(0).lane(0, Engine::control);
  made.add(Op::pop_forward, 0, 0, 0, 0ns, 0ns);
  made.add(Op::forward, 0, 0, 0, 0ns, 2ns);
  made.add(Op::update, 0, 0, 0, 2ns, 2ns);
  made.add(Op::barrier, 0, 0, 1, 2ns, 2ns);
  EXPECT_EQ(draw(made.graph(), made.timeline, 1ns), "rank 0  F0  -\n");
}

TEST(Draw, MarksColumnsInWhichSeveralTasksStart) {
  HandMade made(Shape{.stages = 1, .batches = 4});
  made.lane(0);
  made.add(Op::forward, 0, 0, 0, 0ns, 4ns);
  made.add(Op::forward, 0, 1, 0, 4ns, 8ns);
  made.add(Op::forward, 0, 2, 0, 8ns, 16ns);
  made.add(Op::forward, 0, 3, 0, 16ns, 25ns);
  // Columns of 10: F0, F1 and F2 start in the first, F3 takes over the second from F2.
  EXPECT_EQ(draw(made.graph(), made.timeline, 10ns), "rank 0  F0+  F3   -\n");
}

TEST(Draw, DrawsNoColumnWhenNothingTakesTime) {
  const HandMade made = two_ranks(0ns);
  EXPECT_EQ(draw(made.graph(), made.timeline, 1ns), "rank 0\nrank 1\n");
}

TEST(Draw, RefusesUnitsThatCannotBeDrawn) {
  const HandMade made = two_ranks(1s);
  EXPECT_THROW(draw(made.graph(), made.timeline, 0ns), Error);
  EXPECT_THAT([&] { draw(made.graph(), made.timeline, 1ns); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("longer unit")));
}

/// The cells of each row; a task's label in every column of it, as the papers draw.
std::vector<std::vector<std::string>> cells(const std::string& drawn, std::size_t columns) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(drawn);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    // The second name of a row, "R", is told from the cells by its place.
    constexpr std::size_t name_width = 8;
    std::istringstream words(line.substr(std::min(line.size(), name_width)));
    for (std::string word; row.size() < columns && words >> word;) {
      row.push_back(word == "-" ? row.back() : word);
    }
  }
  return rows;
}

struct Figure {
  std::string_view spec;
  int micro_batches;
  std::string_view rows;  ///< of the specification of the methods, slot by slot
};

class DrawFigure : public ::testing::TestWithParam<Figure> {};

// methods/decoupled.md, sections 2 to 9: F=1, B=2, R=1 and three stages.
TEST_P(DrawFigure, IsDrawnSlotBySlot) {
  const Figure& figure = GetParam();
  const auto expected = cells(std::string(figure.rows), 100);
  const ScheduleSpec spec = ScheduleSpec::parse(figure.spec);
  const TaskGraph graph =
      spec.make({.stages = 3, .micro_batches = figure.micro_batches, .batches = 12}).build();
  const std::string drawn = draw(graph, testing::earliest(graph), 1ns);
  EXPECT_EQ(cells(drawn, expected.front().size()), expected) << drawn;
}

// clang-format off: a slot a column.
INSTANTIATE_TEST_SUITE_P(
    Methods, DrawFigure,
    ::testing::Values(Figure{"bp", 1,
                             "rank 0  F0    .    .    .    .    .    .   B0   B0   F1    .    .    "
                             ".    .    .    .   B1   B1\n"
                             "rank 1   .   F0    .    .    .   B0   B0    .    .    .   F1    .    "
                             ".    .   B1   B1    .    .\n"
                             "rank 2   .    .   F0   B0   B0    .    .    .    .    .    .   F1   "
                             "B1   B1    .    .    .    .\n"},
                      Figure{"gpipe:recompute=except_last", 4,
                             "rank 0  F0   F1   F2   F3    .    .    .    .    .    .   B3   B3   "
                             "R2   B2   B2   R1   B1   B1   R0   B0   B0\n"
                             "rank 1   .   F0   F1   F2   F3    .    .    .   B3   B3   R2   B2   "
                             "B2   R1   B1   B1   R0   B0   B0    .    .\n"
                             "rank 2   .    .   F0   F1   F2   F3   B3   B3   R2   B2   B2   R1   "
                             "B1   B1   R0   B0   B0    .    .    .    .\n"},
                      Figure{"ddg", 1,
                             "rank 0  F0    .    .    .    .   F1    .    .    .    .   F2    .    "
                             ".   B0   B0   F3    .    .\n"
                             "rank 1   .   F0    .    .    .    .   F1    .   B0   B0    .   F2    "
                             ".   B1   B1    .   F3    .\n"
                             "rank 2   .    .   F0   B0   B0    .    .   F1   B1   B1    .    .   "
                             "F2   B2   B2    .    .   F3\n"},
                      Figure{"ddg:form=mailbox", 1,
                             "rank 0  F0   F1    .    .    .    .    .    .   F2   B0   B0    .   "
                             "F3   B1   B1    .   F4   B2\n"
                             "rank 1   .   F0    .    .    .   F1   B0   B0    .   F2   B1   B1    "
                             ".   F3   B2   B2    .   F4\n"
                             "rank 2   .    .   F0   B0   B0    .   F1   B1   B1    .   F2   B2   "
                             "B2    .   F3   B3   B3    .\n"},
                      Figure{"fr", 1,
                             "rank 0  F0    .    .    .    .   F1    .    .    .    .    .   F2    "
                             ".    .   R0   B0   B0   F3\n"
                             "rank 1   .   F0    .    .    .    .   F1    .   R0   B0   B0    .   "
                             "F2    .   R1   B1   B1    .\n"
                             "rank 2   .    .   F0   B0   B0    .    .   F1   B1   B1    .    .    "
                             ".   F2   B2   B2    .    .\n"},
                      Figure{"dsp:form=lockstep,staleness=4/2/0", 1,
                             "rank 0    F0   F1   F2    .    .   F3    .    .   F4   B0   B0   F5  "
                             " B1   B1   F6   B2   B2   F7\n"
                             "rank 0 R   .    .    .    .    .    .    .    .   R0    .    .   R1  "
                             "  .    .   R2    .    .   R3\n"
                             "rank 1     .   F0   F1    .    .   F2   B0   B0   F3   B1   B1   F4  "
                             " B2   B2   F5   B3   B3   F6\n"
                             "rank 1 R   .    .    .    .    .   R0    .    .   R1    .    .   R2  "
                             "  .    .   R3    .    .   R4\n"
                             "rank 2     .    .   F0   B0   B0   F1   B1   B1   F2   B2   B2   F3  "
                             " B3   B3   F4   B4   B4   F5\n"},
                      Figure{"dsp:queues=unbounded", 1,
                             "rank 0    F0   F1   F2   F3   F4    .    .   B0   B0   F5   B1   B1  "
                             " F6   B2   B2   F7   B3   B3\n"
                             "rank 0 R   .    .    .    .   R0    .    .    .    .   R1    .    .  "
                             " R2    .    .   R3    .    .\n"
                             "rank 1     .   F0   F1   F2    .   B0   B0   F3   B1   B1   F4   B2  "
                             " B2   F5   B3   B3   F6   B4\n"
                             "rank 1 R   .    .    .   R0    .    .    .   R1    .    .   R2    .  "
                             "  .   R3    .    .   R4    .\n"
                             "rank 2     .    .   F0   B0   B0   F1   B1   B1   F2   B2   B2   F3  "
                             " B3   B3   F4   B4   B4   F5\n"},
                      Figure{"fdg", 1,
                             "rank 0  F0   F1   F2    .    .   F3    .    .   F4   B0   B0   F5   "
                             "B1   B1   F6   B2   B2   F7\n"
                             "rank 1   .   F0   F1    .    .   F2   B0   B0   F3   B1   B1   F4   "
                             "B2   B2   F5   B3   B3   F6\n"
                             "rank 2   .    .   F0   B0   B0   F1   B1   B1   F2   B2   B2   F3   "
                             "B3   B3   F4   B4   B4   F5\n"},
                      Figure{"fdg:order=bf", 1,
                             "rank 0  F0   F1   F2    .    .   F3    .    .   B0   B0   F4   B1   "
                             "B1   F5   B2   B2   F6   B3\n"
                             "rank 1   .   F0   F1    .    .   B0   B0   F2   B1   B1   F3   B2   "
                             "B2   F4   B3   B3   F5   B4\n"
                             "rank 2   .    .   F0   B0   B0   F1   B1   B1   F2   B2   B2   F3   "
                             "B3   B3   F4   B4   B4   F5\n"}));
// clang-format on

TEST(Draw, DrawsOneForwardOneBackward) {
  const TaskGraph graph =
      ScheduleSpec::parse("1f1b").make({.stages = 4, .micro_batches = 4}).build();
  EXPECT_EQ(
      draw(graph, testing::earliest(graph), 1ns),
      "rank 0  F0  F1  F2  F3  .   .   .   .   .   .   B0  -   .   B1  -   .   B2  -   .   B3  -\n"
      "rank 1  .   F0  F1  F2  .   .   .   .   B0  -   F3  B1  -   .   B2  -   .   B3  -   .   .\n"
      "rank 2  .   .   F0  F1  .   .   B0  -   F2  B1  -   F3  B2  -   .   B3  -   .   .   .   .\n"
      "rank 3  .   .   .   F0  B0  -   F1  B1  -   F2  B2  -   F3  B3  -   .   .   .   .   .   "
      ".\n");
}

}  // namespace
}  // namespace unlatch
