// unlatch compare and diff.
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names_of(const json& document) {
  std::vector<std::string> names;
  for (const json& run : document["schedules"]) names.push_back(run["schedule"]);
  return names;
}

TEST(Compare, RanksByPeriodThenMemoryThenTheOrderGiven) {
  const Folder folder;
  const json all = folder.json(
      "compare --schedule bp --schedule gpipe --schedule 1f1b --schedule dsp --microbatches 8 "
      "--activation-size 1MiB");
  EXPECT_EQ(names_of(all), (std::vector<std::string>{"dsp", "1f1b", "gpipe", "bp"}));
  // Without sizes 1F1B and GPipe are equal in both respects.
  const json equal = folder.json("compare --schedule gpipe --schedule 1f1b --microbatches 8");
  EXPECT_EQ(names_of(equal), (std::vector<std::string>{"gpipe", "1f1b"}));
}

TEST(Compare, ReadsTheStudyOfTheExamples) {
  const Folder folder;
  const json all = folder.json("compare " UNLATCH_SOURCE_DIR "/examples/study.json");
  EXPECT_EQ(names_of(all)[0], "dsp");
  EXPECT_EQ(all["schedules"].size(), 7U);
}

TEST(Compare, PutsWhatExceedsTheMemoryLimitLastWithItsReason) {
  const Folder folder;
  const std::string arguments =
      "compare --schedule gpipe --schedule bp --schedule 1f1b "
      "--microbatches 8 --activation-size 1.5GiB --memory-limit ";
  const json all = folder.json(arguments + "12.5GiB");
  EXPECT_FALSE(all["schedules"][0].contains("reason"));
  const json tight = folder.json(arguments + "6GiB");
  EXPECT_EQ(tight["schedules"][0]["schedule"], "1f1b");
  EXPECT_THAT(tight["schedules"][1]["reason"].get<std::string>(),
              AllOf(HasSubstr("12 GiB"), HasSubstr("6 GiB")));
  const Outcome none = folder.run(arguments + "1GiB");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("error: no schedule fits the memory limit"));
}

TEST(Compare, AgreesWithSimulate) {
  const Folder folder;
  const json compared = folder.json("compare --schedule fdg --stages 3 --batches 9");
  EXPECT_EQ(compared["schedules"][0],
            folder.json("simulate --schedule fdg --stages 3 --batches 9"));
}

TEST(Compare, WritesAReportThatNeedsNothingElse) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "compare --schedule dsp --schedule gpipe:recompute=always --microbatches 4 "
      "--report r.html --trace-dir traces/of/this");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = folder.read("r.html");
  EXPECT_THAT(page, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("gpipe:recompute=always"),
                          HasSubstr("<svg"), HasSubstr("</html>")));
  for (const char* outside : {"<script", "src=", "href=", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_TRUE(json::accept(folder.read("traces/of/this/01-dsp.json")));
  EXPECT_TRUE(json::accept(folder.read("traces/of/this/02-gpipe-recompute_always.json")));
}

TEST(Diff, ComparesTwoRunsAndNamesTheCulprit) {
  const Folder folder;
  const std::string run = "simulate --schedule 1f1b --microbatches 8 ";
  ASSERT_EQ(folder.run(run + "--tasks predicted.csv --trace predicted.json").code, 0);
  ASSERT_EQ(folder.run(run + "--slow 2:1.5 --tasks slow.csv").code, 0);
  EXPECT_EQ(folder.run("diff predicted.csv predicted.json").code, 0);
  const Outcome slow = folder.run("diff predicted.csv slow.csv --json");
  EXPECT_EQ(slow.code, 1);
  EXPECT_THAT(slow.err, HasSubstr("error: "));
  const json result = json::parse(slow.out);
  EXPECT_EQ(result["culprit_rank"], 2);
  EXPECT_EQ(result["by_rank"][2],
            json::parse(R"({"rank":2,"predicted_ms":24.0,"measured_ms":36.0,"ratio":1.5})"));
  EXPECT_EQ(result["by_kind"][0]["kind"], "F");
  EXPECT_EQ(folder.run("diff predicted.csv slow.csv --tolerance 0.6").code, 0);
}

}  // namespace
}  // namespace unlatch::test
