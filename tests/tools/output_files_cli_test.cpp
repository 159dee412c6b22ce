// The files that commands write: two names, full disks, what must not be lost.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using testing::HasSubstr;

const std::string mlp = " --model mlp --data digits --stages 2 --schedule bp";

// A full disk is no failure of the task that was running.
TEST(OutputFiles, TrainBlamesTheMetricsFileForAFullDisk) {
  const Folder folder;
  const Outcome outcome = folder.run("train --epochs 40 --batch-size 8 --metrics /dev/full" + mlp);
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("error: cannot write '/dev/full'"));
}

TEST(OutputFiles, RefusesOneFileForTwoOutputs) {
  const Folder folder;
  folder.write("old", "old");
  for (const std::string& command :
       {std::string("simulate --schedule bp --trace old --tasks ./old"),
        "train --steps 1 --metrics x --save x" + mlp,
        "train --steps 1 --tasks y --save \"$PWD/y\"" + mlp}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("both write")) << command;
  }
  EXPECT_EQ(folder.read("old"), "old");
  EXPECT_EQ(folder.files(), 1);
  EXPECT_EQ(folder.run("simulate --schedule bp --trace /dev/null --tasks /dev/null").code, 0);
}

TEST(OutputFiles, RefusesToWriteOverWhatItReads) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert 1f1b plan.json --stages 2 --microbatches 4").code, 0);
  folder.write("run.json", R"({"schedule": "bp"})");
  folder.write("p.json", "{}");
  const std::string plan = folder.read("plan.json");
  for (const std::string& command :
       {std::string("simulate --schedule file:plan.json --trace plan.json"),
        std::string("simulate --schedule file:plan.json --tasks ./plan.json"),
        std::string("compare --schedule bp --schedule file:plan.json --report plan.json"),
        std::string("simulate --schedule bp --profile p.json --tasks p.json"),
        std::string("simulate run.json --trace run.json"),
        "train --schedule bp --save p.json --profile p.json" + mlp,
        std::string("profile --from-trace . --save p.json"),
        std::string("train --schedule bp --model mlp --data numpy:. --trace \"$PWD/plan.json\"")}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("is read by")) << command;
  }
  EXPECT_EQ(folder.read("plan.json"), plan);
  EXPECT_EQ(folder.read("p.json"), "{}");
}

void expect_nothing_written(const std::string& command, const char* words) {
  const Folder folder;
  const Outcome outcome = folder.run(command);
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr(words));
  EXPECT_EQ(folder.files(), 0);
}

TEST(OutputFiles, WritesNoFileWhenTheOtherCannotBeWritten) {
  expect_nothing_written("simulate --schedule bp --trace t.json --tasks no/t.csv", "no/t.csv");
}

TEST(OutputFiles, DoesNotTakeADashForAFile) {
  expect_nothing_written("simulate --schedule bp --trace -", "/dev/stdout");
}

TEST(OutputFiles, NamesTheFlagOfAnOutputWithoutAName) {
  const Folder folder;
  for (const char* flag : {"simulate --schedule bp --trace", "simulate --schedule bp --tasks",
                           "compare --schedule bp --report", "compare --schedule bp --trace-dir",
                           "profile --model mlp --save"}) {
    const Outcome outcome = folder.run(fmt::format("{} ''", flag));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--"), HasSubstr("must name a file"))) << flag;
  }
}

}  // namespace
}  // namespace unlatch::test
