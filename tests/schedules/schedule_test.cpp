// The builder's rules: the faults of a hand-edited schedule, each named with its place.
#include "schedules/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/error.h"
#include "schedules/parse_task.h"

namespace unlatch {
namespace {

/// One row of tokens a rank, as a schedule file holds them; empty cells are left out.
Schedule from_rows(const std::vector<std::string>& rows, int micro_batches = 2) {
  Schedule schedule("rows",
                    {.stages = static_cast<int>(rows.size()), .micro_batches = micro_batches});
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Program& program = schedule.on(Rank{static_cast<int>(r)});
    std::string_view rest = rows[r];
    int column = 0;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      add_cell(program, rest.substr(0, comma), static_cast<int>(r), column++);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return schedule;
}

std::string first_message(const Schedule& schedule) {
  try {
    schedule.build();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

const std::string row0 = "0F0,0F1,,,0B0,,0B1";
const std::string row1 = ",1F0,1B0,,1F1,1B1,";

TEST(Schedule, AcceptsAHandEditedFile) {  // case O04
  const TaskGraph graph = from_rows({row0, row1}).build();
  EXPECT_EQ(graph.size(), 8);
  EXPECT_TRUE(from_rows({row0, row1}).violations().empty());
}

TEST(Schedule, NamesADuplicateAndBothItsPlaces) {
  EXPECT_EQ(first_message(from_rows({"0F0,0F1,0F1,,0B0,,0B1", row1})),
            "rows: 0F1 appears twice: at rank 0, place 1 and at rank 0, place 2; each task runs "
            "once");
}

TEST(Schedule, NamesMissingWork) {
  EXPECT_EQ(first_message(from_rows({row0, ",1F0,1B0,,1F1"})),
            "rows: 1B1 is missing, while 1F1 exists");
}

TEST(Schedule, NamesABackwardBeforeItsForward) {
  EXPECT_EQ(first_message(from_rows({row0, ",1B0,1F0,,1F1,1B1"})),
            "rows: 1B0 stands before 1F0 on rank 1 (places 0 and 1), but needs it");
}

TEST(Schedule, NamesAStageThatDoesNotExist) {
  EXPECT_EQ(first_message(from_rows({row0, row1 + "2F0"})),
            "rows: 2F0 at rank 1, place 4: stages are 0..1 and micro-batches 0..1");
}

TEST(Schedule, NamesAStageOnTwoRanks) {
  const std::string message = first_message(from_rows({"0F0,0F1,1F1,0B0,0B1", "1F0,1B0,1B1"}));
  EXPECT_THAT(message, testing::HasSubstr("stage 1 is on ranks 1 and 0"));
}

TEST(Schedule, NamesAnUnreadableToken) {
  EXPECT_THAT(
      [] {
        try {
          from_rows({row0, ",0X1,1B0,,1F1,1B1"});
        } catch (const Error& error) {
          return std::string(error.what());
        }
        return std::string();
      }(),
      testing::AllOf(testing::HasSubstr("0X1"), testing::HasSubstr("row 1, column 1")));
}

TEST(Schedule, NamesAMicroBatchThatDoesNotExist) {
  const auto violations = from_rows({"0F0,0F2,,,0B0,,0B1", row1}).violations();
  ASSERT_GE(violations.size(), 2U);
  EXPECT_EQ(violations[0].message,
            "0F2 at rank 0, place 1: stages are 0..1 and micro-batches 0..1");
  EXPECT_THAT(violations[1].message, testing::HasSubstr("0F1 is missing"));
}

TEST(Schedule, NamesAWeightGradientThatIsNeverDone) {
  EXPECT_EQ(first_message(from_rows({row0, ",1F0,1I0,,1F1,1B1"})),
            "rows: weight gradient 1W0 is never done, while 1I0 exists at rank 1, place 1");
}

TEST(Schedule, NamesTheCycleOfADeadlock) {
  // Rank 0 wants the gradient of micro-batch 0 before it forwards 1; rank 1 wants them together.
  const Schedule schedule = from_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"});
  const auto violations = schedule.violations();
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].rule, "deadlock");
  EXPECT_THAT(violations[0].tasks, testing::UnorderedElementsAre("0B0", "0F1", "1F1", "1B0"));
  EXPECT_THAT(violations[0].message,
              testing::AllOf(testing::HasSubstr("rank 0 0F1 -> rank 0 0B0"),
                             testing::HasSubstr("rank 1 1B0 -> rank 1 1F1")));
}

TEST(Schedule, WaitingForALaterTaskOfTheSameRankIsADeadlock) {
  Schedule schedule("after", {.stages = 1});
  schedule.on({0}).after(Op::backward, {0}, {0}).forward({0}, {0}).backward({0}, {0});
  EXPECT_THAT(first_message(schedule), testing::HasSubstr("rank 0 0F0 -> rank 0 0B0"));
}

TEST(Schedule, QueuesThatAreTooSmallDeadlock) {
  // DSP's order with staleness 4 needs capacities of 4 in all between two stages (pitfall 17).
  for (const auto& [activations, gradients, works] :
       {std::tuple(2, 2, true), {1, 2, false}, {2, 1, false}, {1, 1, false}, {3, 1, true}}) {
    const int batches = 12, m = 4;
    Schedule schedule("queues", {.stages = 2, .batches = batches});
    for (int i = 0; i < batches + m; ++i) {
      Program& lower = schedule.on({0});
      if (i < batches) lower.forward({0}, {i}).push_forward({0}, {i}, activations);
      if (i >= m) lower.pop_backward({0}, {i - m}).backward({0}, {i - m}).update({0}, {i - m});
    }
    for (int i = 0; i < batches; ++i) {
      schedule.on({1}).pop_forward({1}, {i}).forward({1}, {i}).backward({1}, {i});
      schedule.on({1}).push_backward({1}, {i}, gradients).update({1}, {i});
    }
    EXPECT_EQ(schedule.violations().empty(), works) << activations << " and " << gradients;
  }
}

TEST(Schedule, NamesAGradientThatNoUpdateApplies) {
  Schedule schedule("lost", {.stages = 1, .batches = 2});
  schedule.on({0}).forward({0}, {0}).backward({0}, {0}).update({0}, {0});
  schedule.on({0}).forward({0}, {1}).backward({0}, {1});
  EXPECT_THAT(first_message(schedule),
              testing::HasSubstr("0B1 at rank 0, place 4 is never applied"));
}

TEST(Schedule, NamesAnUpdateWithoutAGradient) {
  Schedule schedule("early", {.stages = 1, .batches = 2});
  schedule.on({0}).update({0}, {1}).forward({0}, {0}).forward({0}, {1}).backward({0}, {0});
  schedule.on({0}).backward({0}, {1}).update({0}, {0});
  EXPECT_THAT(first_message(schedule), testing::HasSubstr("has no gradient to apply"));
}

TEST(Schedule, NamesAPushWithoutItsPop) {
  Schedule schedule("push", {.stages = 2});
  schedule.on({0}).forward({0}, {0}).push_forward({0}, {0}, 1).backward({0}, {0});
  schedule.on({1}).forward({1}, {0}).backward({1}, {0});
  EXPECT_THAT(first_message(schedule), testing::HasSubstr("no partner 1POP_F0"));
}

TEST(Schedule, NamesBarriersThatNotEveryRankMeets) {
  Schedule schedule("barriers", {.stages = 2});
  schedule.on({0}).forward({0}, {0}).backward({0}, {0}).barrier();
  schedule.on({1}).forward({1}, {0}).backward({1}, {0});
  EXPECT_THAT(first_message(schedule), testing::HasSubstr("every rank must meet"));
}

}  // namespace
}  // namespace unlatch
