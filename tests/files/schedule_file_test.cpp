// Schedule files as a whole: what a table implies, every rule it can break, repetition.
#include "files/schedule_file.h"

#include <gmock/gmock.h>

#include "files/table_schedule.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string base = "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,,1F1,1B1,\n";

std::vector<Violation> violations(const std::string& text, Sends sends = Sends::buffered) {
  return ScheduleFile("file.csv", text).violations(sends);
}

std::vector<std::string> rules(const std::vector<Violation>& violations) {
  std::vector<std::string> rules;
  for (const Violation& violation : violations) rules.push_back(violation.rule);
  return rules;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(ScheduleFile, AcceptsAHandEditedFile) {
  const ScheduleFile file("file.csv", base);
  EXPECT_THAT(file.violations(), IsEmpty());
  EXPECT_EQ(file.shape(), (Shape{.stages = 2, .micro_batches = 2}));
}

TEST(ScheduleFile, PlacesEveryStageWhereTheFileHasIt) {
  const ScheduleFile file("v.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_THAT(file.violations(), IsEmpty());
  const Schedule schedule = file.schedule(1);
  EXPECT_EQ(schedule.shape().chunks, 2);
  EXPECT_EQ(schedule.rank_of({3}), Rank{0});
  EXPECT_EQ(schedule.rank_of({2}), Rank{1});
}

TEST(ScheduleFile, ListsSeveralFaultsAtOnce) {
  // 0F1 twice, 0B1 unreadable and so missing, 1B0 before 1F0.
  const auto found = violations("0F0,0F1,0F1,,0B0,,0Z1\n,1B0,1F0,,1F1,1B1,\n");
  EXPECT_THAT(rules(found), ElementsAre("token", "duplicate", "missing", "order"));
  EXPECT_EQ(found[0].column, 6);
  EXPECT_EQ(found[1].column, 2);
  EXPECT_EQ(found[2].tasks, std::vector<std::string>{"0B1"});
  EXPECT_EQ(found[2].column, 1);  // of the forward that it follows
  EXPECT_THAT(found[3].tasks, ElementsAre("1B0", "1F0"));
}

TEST(ScheduleFile, NamesADeadlockTaskByTask) {
  const auto found = violations("0F0,0B1,0F1,0B0\n1F0,1B0,1F1,1B1\n");
  ASSERT_THAT(rules(found), Contains("order"));  // 0B1 before 0F1 on one rank
  const auto cycle = violations("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  ASSERT_EQ(rules(cycle), std::vector<std::string>{"deadlock"});
  EXPECT_THAT(cycle[0].tasks, AllOf(Contains("0B0"), Contains("0F1"), Contains("1F1")));
  EXPECT_GE(cycle[0].column, 0);
}

TEST(ScheduleFile, RefusesNumbersThatNoCompleteTableReaches) {
  EXPECT_EQ(rules(violations("0F0,0B0,0F1,0B1,900000F0,0F200000000\n")),
            (std::vector<std::string>{"range", "range"}));
  EXPECT_EQ(rules(violations("0F0,1F1,2F2,3F3\n")), std::vector<std::string>{"missing"});
  EXPECT_EQ(rules(violations("")), std::vector<std::string>{"shape"});
  EXPECT_EQ(rules(violations("0F0,0B0,1F0,1B0\n2F0,2B0\n")), std::vector<std::string>{"shape"});
}

TEST(ScheduleFile, ChecksMessagesAgainstTheOrder) {
  const std::string good = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
  EXPECT_THAT(violations(good), IsEmpty());
  const auto check = [&](const std::string& from, const std::string& to) {
    return violations(replaced(good, from, to));
  };
  EXPECT_EQ(rules(check("0F0,0SEND_F0", "0SEND_F0,0F0")), std::vector<std::string>{"order"});
  EXPECT_EQ(rules(check("1RECV_F0,1F0", "1F0,1RECV_F0")), std::vector<std::string>{"order"});
  EXPECT_EQ(rules(check("0RECV_B0,", "")), (std::vector<std::string>{"missing", "missing"}));
  EXPECT_EQ(rules(check(",1SEND_B0", "")), (std::vector<std::string>{"missing", "missing"}));
  EXPECT_EQ(rules(check("0SEND_F0", "0SEND_F0,0SEND_F0")), std::vector<std::string>{"duplicate"});
  EXPECT_EQ(rules(check("0SEND_F0", "0SEND_F0,0SEND_F7")), std::vector<std::string>{"range"});
  EXPECT_EQ(rules(check("1B0,", "1B0,1SEND_F0,")), std::vector<std::string>{"range"});
  EXPECT_EQ(rules(check("0B0", "0B0,0SEND_B0")), std::vector<std::string>{"range"});
  EXPECT_EQ(rules(check("1B0,", "1B0,0UNSHARD,")), std::vector<std::string>{"placement"});
}

TEST(ScheduleFile, NeedsNoMessageWithinARank) {
  const auto found = violations("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n");
  EXPECT_EQ(rules(found), (std::vector<std::string>{"placement", "placement"}));
  EXPECT_THAT(found[0].message, HasSubstr("0SEND_F0 at row 0, column 1"));
}

TEST(ScheduleFile, WantsMessagesOfOneDirectionInOneOrder) {
  const auto found = violations(
      "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F1,1RECV_F0,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n");
  ASSERT_EQ(rules(found), std::vector<std::string>{"order"});
  EXPECT_THAT(found[0].message, AllOf(HasSubstr("rank 0 sends 0SEND_F0 first"),
                                      HasSubstr("rank 1 receives 1RECV_F1 first")));
}

TEST(ScheduleFile, RepeatsItsBatch) {
  const Schedule three = ScheduleFile("file.csv", base).schedule(3);
  const TaskGraph graph = three.build();
  EXPECT_EQ(graph.shape().batches, 3);
  EXPECT_EQ(graph.size(), 3 * (8 + 2));
  int updates = 0;
  for (const Task& task : graph.tasks()) {
    if (task.op != Op::update) continue;
    EXPECT_EQ(task.micro_batch.value % 2, 1);
    EXPECT_EQ(task.step, task.version);
    ++updates;
  }
  EXPECT_EQ(updates, 6);
}

TEST(ScheduleFile, MakesAMethodOfOneShape) {
  const auto method = method_of(std::make_shared<const ScheduleFile>("file.csv", base));
  EXPECT_EQ(method->name, "file:file.csv");
  EXPECT_TRUE(method->synchronous);
  const ScheduleSpec spec = ScheduleSpec::of(method);
  EXPECT_EQ(spec.make({.stages = 2, .micro_batches = 2, .batches = 4}).build().size(), 40);
  try {
    spec.make({.stages = 2, .micro_batches = 8});
    FAIL() << "another shape was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds 2 stages on 2 ranks with 2 micro-batches"));
  }
}

TEST(ScheduleFile, NamesTheFirstFaultWhenItIsUsed) {
  const auto file = std::make_shared<const ScheduleFile>("file.csv", "0F0,0F0,0B0\n1B0,1F0\n");
  try {
    method_of(file);
    FAIL() << "a broken file was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("file.csv: 0F0 appears twice"), HasSubstr("2 violations in all")));
  }
}

TEST(TableOf, SaysWhatACsvFileCannotHold) {
  Schedule schedule("mine", {.stages = 1});
  schedule.on({0}).forward({0}, {0}).recompute({0}, {0}).backward({0}, {0}).update({0}, {0});
  try {
    table_of(schedule);
    FAIL() << "R was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("mine: 0R0"), HasSubstr("JSON")));
  }
}

TEST(TableOf, GivesBackWhatATableHeld) {
  const ActionTable table = parse_pipeline_csv("0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1B1\n").table;
  EXPECT_EQ(table_of(schedule_of(table, shape_of(table), "t", Updates::after_last_backward)),
            table);
}

}  // namespace
}  // namespace unlatch::files
