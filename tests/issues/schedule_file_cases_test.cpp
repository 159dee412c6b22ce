// Acceptance cases about schedule files and the schedules they hold: O02, O04, O05, O06, O15, O19
// and O50, through the program. O03, O07, O08 and O22: see message_cases_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string row0 = "0F0,0F1,,,0B0,,0B1";
const std::string row1 = ",1F0,1B0,,1F1,1B1,";

double makespan(const Folder& folder, const std::string& text) {
  folder.write("file.csv", text);
  return folder.json("simulate --schedule file:file.csv")["makespan_ms"];
}

std::vector<json> violations(const Folder& folder, const std::string& text) {
  folder.write("file.csv", text);
  const Outcome outcome = folder.run("check file.csv --json");
  EXPECT_EQ(outcome.code, 2) << text;
  return json::parse(outcome.out)["violations"];
}

/// Some violation has the rule, the place and all these words.
void expect_fault(const Folder& folder, const std::string& text, const std::string& rule, int row,
                  int column, const std::vector<std::string>& words) {
  bool found = false;
  for (const json& violation : violations(folder, text)) {
    const std::string message = violation["message"];
    found = found || (violation["rule"] == rule && violation["row"] == row &&
                      violation["column"] == column &&
                      std::ranges::all_of(words, [&](const std::string& word) {
                        return message.find(word) != std::string::npos;
                      }));
  }
  EXPECT_TRUE(found) << text << "\n" << folder.run("check file.csv").out;
}

TEST(O04, TheBaseFileIsAccepted) {
  const Folder folder;
  folder.write("file.csv", row0 + "\n" + row1 + "\n");
  EXPECT_EQ(folder.run("check file.csv").code, 0);
  const json run = folder.json("simulate --schedule file:file.csv --tasks tasks.csv");
  EXPECT_EQ(run["makespan_ms"], 9.0);
  EXPECT_NEAR(run["bubble_ratio"].get<double>(), 1.0 / 3, 1e-12);
  for (const json& rank : run["ranks_detail"]) EXPECT_EQ(rank["busy_ms"], 6.0);
  const std::string tasks = folder.read("tasks.csv");
  for (const char* line : {"0F0,F,0,0,0,0,compute,0,1,", "1F0,F,1,0,0,1,compute,1,2,",
                           "1B1,B,1,0,1,1,compute,5,7,", "0B1,B,0,0,1,0,compute,7,9,"}) {
    EXPECT_THAT(tasks, HasSubstr(line));
  }
}

TEST(O04, EveryFaultIsNamedWithItsPlace) {
  const Folder folder;
  const auto rows = [](const std::string& first, const std::string& second) {
    return first + "\n" + second + "\n";
  };
  expect_fault(folder, rows("0F0,0F1,0F1,,0B0,,0B1", row1), "duplicate", 0, 2,
               {"0F1", "row 0, column 1", "row 0, column 2"});
  expect_fault(folder, rows(row0, ",1F0,1B0,,1F1,,"), "missing", 1, 4, {"1B1", "1F1 exists"});
  expect_fault(folder, rows(row0, ",1B0,1F0,,1F1,1B1,"), "order", 1, 2,
               {"1B0", "before 1F0 on rank 1"});
  expect_fault(folder, rows(row0, row1 + ",2F0"), "range", 1, 7, {"2F0", "stages are 0..1"});
  expect_fault(folder, rows("0F0,0F1,1F1,,0B0,,0B1", ",1F0,1B0,,,1B1,"), "placement", 0, 2,
               {"stage 1 is on ranks 1 and 0"});
  expect_fault(folder, rows(row0, ",0X1,1B0,,1F1,1B1,"), "token", 1, 1, {"0X1"});
  expect_fault(folder, rows("0F0,0F2,,,0B0,,0B1", row1), "range", 0, 1,
               {"0F2", "micro-batches 0..1"});
  expect_fault(folder, rows(row0, ",1F0,1I0,,1F1,1B1,"), "missing", 1, 2, {"1W0 is never done"});
}

TEST(O50, TheSpreadsheetsFilesTakeAsLongAsThePlainOne) {
  const Folder folder;
  const std::string quoted =
      "\"0F0\",\"0F1\",\"\",\"\",\"0B0\",\"\",\"0B1\"\n\"\",\"1F0\",\"1B0\",\"\",\"1F1\",\"1B1\","
      "\"\"\n";
  for (const std::string& text :
       {"\xEF\xBB\xBF" + row0 + "\n" + row1 + "\n", row0 + "\r\n" + row1 + "\r\n", quoted,
        std::string(" 0F0 , 0F1 , , , 0B0 , , 0B1 \n , 1F0 , 1B0 , , 1F1 , 1B1 , \n"),
        row0 + ",,,\n" + row1 + ",,,\n", row0 + "\n" + row1 + "\n\n", row0 + "\n" + row1}) {
    EXPECT_EQ(makespan(folder, text), 9.0) << text;
  }
}

TEST(O50, OtherKindsOfFilesAreCalledByTheirName) {
  const Folder folder;
  EXPECT_THAT(violations(folder, "0F0;0F1;;;0B0;;0B1\n;1F0;1B0;;1F1;1B1;\n")[0]["message"]
                  .get<std::string>(),
              HasSubstr("semicolons"));
  EXPECT_THAT(violations(folder, std::string("\xFF\xFE"
                                             "0\0F\0000\0\n\0",
                                             10))[0]["message"]
                  .get<std::string>(),
              HasSubstr("UTF-16"));
  const json empty = violations(folder, row0 + "\n\n" + row1 + "\n")[0];
  EXPECT_EQ(empty["rule"], "row");
  EXPECT_EQ(empty["row"], 1);
}

TEST(O05, ARingPlacementOfAVScheduleIsRefused) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert zb-v v.json --ranks 4 --microbatches 8").code, 0);
  std::string text = folder.read("v.json");
  const std::string v = "\"placement\": [0, 1, 2, 3, 3, 2, 1, 0]";
  ASSERT_NE(text.find(v), std::string::npos);
  text.replace(text.find(v), v.size(), "\"placement\": [0, 1, 2, 3, 0, 1, 2, 3]");
  folder.write("ring.json", text);
  const Outcome outcome = folder.run("simulate --schedule file:ring.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("0:0,7 1:1,6 2:2,5 3:3,4"), HasSubstr("4 (on 0, wanted on 3)"),
                    HasSubstr("5 (on 1, wanted on 2)"), HasSubstr("6 (on 2, wanted on 1)"),
                    HasSubstr("7 (on 3, wanted on 0)")));
  // Without a placement in the file the one of the programs holds.
  text.erase(text.find("  \"placement\""),
             text.find("  \"learning\"") - text.find("  \"placement\""));
  folder.write("none.json", text);
  EXPECT_EQ(folder.json("simulate --schedule file:none.json")["stages_detail"][7]["rank"], 0);
}

TEST(O06, InterleavedTakesTheRoundsRule) {
  const Folder folder;
  const std::string command =
      "simulate --schedule interleaved-1f1b --ranks 4 --chunks 2 --forward 0.5 --backward 1 "
      "--microbatches ";
  const json eight = folder.json(command + "8");
  EXPECT_EQ(eight["makespan_ms"], 28.5);
  const int most[] = {11, 9, 7, 5};
  for (int r = 0; r < 4; ++r) EXPECT_EQ(eight["ranks_detail"][r]["peak_activations"], most[r]);
  for (const int m : {3, 7, 10}) EXPECT_EQ(folder.run(fmt::format("{}{}", command, m)).code, 0);
  for (const int m : {9, 11}) {
    const Outcome outcome = folder.run(fmt::format("{}{}", command, m));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("{}", m)));
  }
}

TEST(O06, InterleavingBeatsPlain1f1b) {
  const Folder folder;
  EXPECT_EQ(folder.json("simulate --schedule 1f1b --ranks 4 --microbatches 8")["makespan_ms"],
            33.0);
}

TEST(O06, RefusedBatchesAreNamedWithTheRule) {
  const Folder folder;
  for (const auto& [rule, micro_batches, why] : {std::tuple{"rounds", 9, "9 div 4"},
                                                 {"rounds", 11, "11 div 4"},
                                                 {"megatron", 9, "9 mod 4"},
                                                 {"megatron", 11, "11 mod 4"}}) {
    const Outcome outcome = folder.run(
        fmt::format("simulate --schedule interleaved-1f1b:rule={} --ranks 4 --microbatches {}",
                    rule, micro_batches));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(fmt::format("rule={}", rule)), HasSubstr(why)));
  }
}

TEST(O06, GroupsSmallerThanTheRanksAreRefusedAndLargerOnesHoldMore) {
  const Folder folder;
  const auto command = [](int group) {
    return fmt::format(
        "simulate --schedule interleaved-1f1b:group={} --ranks 4 --chunks 2 --forward 0.5 "
        "--backward 1 --microbatches 8",
        group);
  };
  for (const int group : {1, 2}) {
    const Outcome outcome = folder.run(command(group));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr(fmt::format("group={}", group)), HasSubstr("4 ranks")));
  }
  const json four = folder.json(command(4)), eight = folder.json(command(8));
  EXPECT_EQ(four["makespan_ms"], 28.5);
  EXPECT_EQ(eight["makespan_ms"], 28.5);
  const int held[] = {15, 13, 11, 9};
  for (int r = 0; r < 4; ++r) EXPECT_EQ(eight["ranks_detail"][r]["peak_activations"], held[r]);
}

TEST(O15, ASplitBackwardThatRecomputesTwiceLoses) {
  const Folder folder;
  const std::string shape = " --ranks 4 --microbatches 16 --forward 1 ";
  const auto run = [&](const std::string& schedule, const std::string& costs) {
    return folder.json("simulate --schedule " + schedule + shape + costs);
  };
  EXPECT_EQ(run("1f1b", "--backward 2")["makespan_ms"], 57.0);
  EXPECT_EQ(run("zb-h1", "--input-grad 1 --weight-grad 1")["makespan_ms"], 51.0);
  const json once = run("1f1b", "--backward 3");
  const json twice = run("zb-h1", "--input-grad 2 --weight-grad 2");
  EXPECT_EQ(once["makespan_ms"], 76.0);
  EXPECT_GE(twice["makespan_ms"].get<double>(), 80.0);
  EXPECT_LT(twice["bubble_ratio"].get<double>(), once["bubble_ratio"].get<double>());
}

TEST(O19, ASplitBackwardFreesInTwoParts) {
  const Folder folder;
  const std::string sizes =
      "simulate --schedule file:file.csv --activation-size 1000 --weight-grad-activation-size 600 ";
  folder.write("file.csv", "0F0,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2\n");
  EXPECT_EQ(folder.json(sizes)["ranks_detail"][0]["peak_memory_bytes"], 2600);
  const Outcome over = folder.run(sizes + "--memory-limit 2500");
  expect_refused(over);
  EXPECT_THAT(over.err, HasSubstr("exceeded at 0F2"));
  folder.write("file.csv", "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n");
  EXPECT_EQ(folder.json(sizes + "--memory-limit 2500")["ranks_detail"][0]["peak_memory_bytes"],
            2000);
}

}  // namespace
}  // namespace unlatch::test
