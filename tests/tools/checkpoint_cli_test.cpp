// unlatch train --checkpoint and --resume: whatever ends a run, going on leaves the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <random>
#include <sstream>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string small =
    "train --model mlp --data digits --stages 2 --batch-size 32 --lr 0.02 "
    "--optimizer momentum --steps 40 ";
const std::string every_ten = small + "--schedule fdg --checkpoint c --checkpoint-every 10 ";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Loss and accuracy by step; fails unless the steps are 1, 2, 3 ..
std::vector<std::pair<double, double>> losses_in(const std::string& metrics) {
  std::vector<std::pair<double, double>> losses;
  double time = 0;
  std::istringstream lines(metrics);
  for (std::string text; std::getline(lines, text);) {
    const json line = json::parse(text);
    losses.emplace_back(line["loss"], line["accuracy"]);
    EXPECT_EQ(line["step"], losses.size());
    EXPECT_GE(line["time_ms"], time);
    time = line["time_ms"];
  }
  return losses;
}

TEST(Checkpoint, AResumedRunLeavesTheFilesOfOneThatWasNotStopped) {
  for (const std::string schedule :
       {"--schedule dsp --threads 1", "--schedule dgl:mode=async,buffer=2",
        "--schedule asgd --replicas 2", "--schedule 1f1b --microbatches 4"}) {
    SCOPED_TRACE(schedule);
    const Folder folder;
    folder.json(small + schedule + " --save whole --metrics whole.jsonl");
    const std::string command = small + schedule + " --checkpoint c --checkpoint-every 15 ";
    const json saving = folder.json(command + "--save saving --metrics saving.jsonl");
    EXPECT_EQ(saving["checkpoints"]["saved"], 2);
    EXPECT_EQ(folder.read("saving"), folder.read("whole"));
    EXPECT_THAT(names_in(folder.file("c")),
                ElementsAre("step-15.safetensors", "step-30.safetensors"));
    const json resumed = folder.json(command + "--resume c --save resumed --metrics resumed.jsonl");
    EXPECT_EQ(resumed["resumed_at_step"], 30);
    EXPECT_FALSE(resumed.contains("checkpoints"));
    EXPECT_EQ(resumed["test_loss"], saving["test_loss"]);
    EXPECT_EQ(resumed["train_loss"], saving["train_loss"]);
    EXPECT_EQ(folder.read("resumed"), folder.read("whole"));
    const auto losses = losses_in(folder.read("whole.jsonl"));
    EXPECT_EQ(losses.size(), 40u);
    EXPECT_EQ(losses_in(folder.read("saving.jsonl")), losses);
    EXPECT_EQ(losses_in(folder.read("resumed.jsonl")), losses);
  }
}

// The micro-batches of a batch end on several ranks, in any order.
TEST(Checkpoint, LossesOfSeveralRanksAreTheSameInEveryRun) {
  for (const std::string schedule : {"--schedule 1f1b --replicas 2 --stages 1 --microbatches 4",
                                     "--schedule chimera --stages 2 --microbatches 4"}) {
    SCOPED_TRACE(schedule);
    const Folder folder;
    const std::string command =
        "train --model mlp --data digits --batch-size 48 --lr 0.02 --steps 300 " + schedule;
    std::vector<std::vector<std::pair<double, double>>> runs;
    for (int run = 0; run < 3; ++run) {
      folder.json(command + " --metrics m.jsonl");
      runs.push_back(losses_in(folder.read("m.jsonl")));
    }
    EXPECT_THAT(runs, testing::Each(runs.front()));
  }
}

// Points before the stop have no measured time any more.
TEST(Checkpoint, AResumedRunHasTheWholeTestCurve) {
  for (const std::string schedule : {"--schedule fdg", "--schedule 1f1b --microbatches 4"}) {
    SCOPED_TRACE(schedule);
    const Folder folder;
    const std::string command =
        small + schedule + " --evaluate-every 8 --checkpoint c --checkpoint-every 17 ";
    const json whole = folder.json(command)["test_curve"];
    const json resumed = folder.json(command + "--resume c")["test_curve"];
    ASSERT_EQ(whole.size(), 5u);
    ASSERT_EQ(resumed.size(), 5u);
    for (std::size_t n = 0; n < 5; ++n) {
      for (const char* what : {"step", "epoch", "test_accuracy", "test_loss"}) {
        EXPECT_EQ(resumed[n][what], whole[n][what]);
      }
      EXPECT_EQ(resumed[n]["time_ms"].is_null(), whole[n]["step"] <= 34);
    }
  }
}

// At batch 44 some stages have learned from it already, others have not come so far.
TEST(Checkpoint, KeepsPointsThatOnlySomeStagesHavePassed) {
  for (const std::string schedule : {"fdg", "dsp:form=lockstep", "fr", "adl:accumulate=2"}) {
    SCOPED_TRACE(schedule);
    const Folder folder;
    const std::string command = fmt::format(
        "train --schedule {} --stages 4 --model mlp:hidden=32/32/32 --data digits --lr 0.02 "
        "--steps 60 --evaluate-every 15 --checkpoint c --checkpoint-every 44 ",
        schedule);
    const json whole = folder.json(command)["test_curve"];
    const json resumed = folder.json(command + "--resume c")["test_curve"];
    ASSERT_EQ(whole.size(), 4u);
    ASSERT_EQ(resumed.size(), 4u);
    for (std::size_t n = 0; n < 4; ++n) EXPECT_EQ(resumed[n]["test_loss"], whole[n]["test_loss"]);
  }
}

TEST(Checkpoint, AFileUnderTheNameOfAnotherStepCountsAsDamaged) {
  const Folder folder;
  folder.json(every_ten + "--save whole");
  ASSERT_THAT(names_in(folder.file("c")),
              ElementsAre("step-20.safetensors", "step-30.safetensors"));
  folder.write("c/step-30.safetensors", folder.read("c/step-20.safetensors"));
  const Outcome outcome = folder.run(every_ten + "--resume c --save resumed");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("going on from step 20 instead"));
  EXPECT_EQ(folder.read("resumed"), folder.read("whole"));
}

TEST(Checkpoint, TwoRunsDoNotSaveInOneFolder) {
  const Folder folder;
  const Outcome outcome = folder.run(every_ten, "mkdir c && flock c");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("another run is saving there"));
}

TEST(Checkpoint, OtherTestDataAreAnotherRun) {
  const Folder folder;
  folder.write("text", std::string(2000, 'a') + std::string(2000, 'b'));
  const std::string command =
      "train --model transformer:sequence=16,width=16,heads=2,layers=1 --stages 1 --schedule bp "
      "--data text:text --batch-size 8 --steps 4 --checkpoint c --checkpoint-every 2 ";
  folder.json(command);
  folder.write("text", std::string(2000, 'a') + std::string(1999, 'b') + "c");
  const Outcome outcome = folder.run(command + "--resume c");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("the test data was"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("the training data was")));
}

TEST(Checkpoint, SurvivesKillsAtAnyMoment) {
  const Folder folder;
  const std::string long_run =
      "train --model mlp --data digits --stages 3 --schedule pipedream --batch-size 32 --lr 0.01 "
      "--optimizer nesterov --steps 1500 --checkpoint-every 20 ";
  folder.json(long_run + "--checkpoint other --save whole --metrics whole.jsonl");
  std::minstd_rand random(5);
  int kills = 0;
  for (int attempt = 0;; ++attempt) {
    const std::string resume =
        std::filesystem::exists(folder.file("c")) && !names_in(folder.file("c")).empty()
            ? "--resume c "
            : "";
    // Grows, so that a slow machine comes to an end as well.
    const double seconds = (0.05 + 0.0003 * (random() % 1000)) * (1 + attempt / 10);
    const Outcome run =
        folder.run(long_run + "--checkpoint c " + resume + "--save resumed --metrics resumed.jsonl",
                   fmt::format("timeout --signal=KILL {}", seconds));
    if (run.code == 0) break;
    ASSERT_EQ(run.code, 137) << run.err;
    // A kill may come behind the last write; what is there is whole.
    if (std::filesystem::exists(folder.file("resumed"))) {
      EXPECT_EQ(folder.read("resumed"), folder.read("whole"));
    }
    ++kills;
  }
  EXPECT_GT(kills, 0);
  EXPECT_EQ(folder.read("resumed"), folder.read("whole"));
  EXPECT_EQ(losses_in(folder.read("resumed.jsonl")), losses_in(folder.read("whole.jsonl")));
}

TEST(Checkpoint, GoesOnFromTheOneBeforeWhenTheNewestIsDamaged) {
  const Folder folder;
  folder.json(every_ten + "--save whole");
  const std::string newest = folder.file("c/step-30.safetensors");
  const auto size = std::filesystem::file_size(newest);
  std::filesystem::resize_file(newest, size - 100);
  const Outcome run = folder.run(every_ten + "--resume c --save resumed");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: c/step-30.safetensors: is no sound safetensors file"));
  EXPECT_THAT(run.err, HasSubstr("going on from step 20 instead"));
  EXPECT_THAT(run.out, HasSubstr("resumed at      step 20"));
  EXPECT_EQ(folder.read("resumed"), folder.read("whole"));
  EXPECT_THAT(names_in(folder.file("c")),
              ElementsAre("step-20.safetensors", "step-30.safetensors"));
  EXPECT_EQ(std::filesystem::file_size(newest), size);
}

TEST(Checkpoint, SaysWhyNoneCanBeRead) {
  const Folder folder;
  folder.json(every_ten);
  folder.write("c/step-20.safetensors", "nothing");
  folder.json(small + "--schedule fdg --save weights");
  folder.write("c/step-30.safetensors", folder.read("weights"));
  const Outcome run = folder.run(every_ten + "--resume c");
  expect_refused(run);
  EXPECT_THAT(run.err, HasSubstr("--resume c: none of its checkpoints can be read"));
  EXPECT_THAT(run.err, HasSubstr("step-20.safetensors: is no sound safetensors file"));
  EXPECT_THAT(run.err, HasSubstr("step-30.safetensors: is no checkpoint of a training run"));
}

TEST(Checkpoint, RefusesToGoOnWithAnotherRunAndNamesWhatDiffers) {
  const Folder folder;
  folder.json(every_ten);
  const auto refusal = [&](const std::string& arguments) {
    const Outcome run = folder.run("train " + arguments + " --resume c");
    expect_refused(run);
    return run.err;
  };
  const std::string same =
      "--model mlp --data digits --stages 2 --batch-size 32 --optimizer momentum --schedule fdg ";
  EXPECT_THAT(refusal(same + "--steps 40 --lr 0.05"), HasSubstr("--lr was 0.02, now it is 0.05"));
  const std::string longer = refusal(same + "--steps 50 --lr 0.02 --seed 3");
  EXPECT_THAT(longer, HasSubstr("--steps was 40, now it is 50"));
  EXPECT_THAT(longer, HasSubstr("--seed was not given, now it is 3"));
  EXPECT_THAT(longer, HasSubstr("the number of batches was 40, now it is 50"));
  EXPECT_THAT(refusal("--model mlp --data digits --stages 2 --batch-size 32 --schedule fdg "
                      "--steps 40 --lr 0.02"),
              HasSubstr("--optimizer was momentum, now it is not given"));
  EXPECT_THAT(refusal("--model mlp --data synthetic:1x8x8,samples=1438 --stages 2 --batch-size 32 "
                      "--optimizer momentum --schedule fdg --steps 40 --lr 0.02"),
              HasSubstr("the training data was digits"));
  EXPECT_THAT(refusal(same + "--steps 40 --lr 0.02 --partition 1/4"),
              HasSubstr("the partition was"));
}

TEST(Checkpoint, RefusesFoldersThatDoNotFit) {
  const Folder folder;
  const auto refusal = [&](const std::string& arguments) {
    const Outcome run = folder.run(small + "--schedule bp " + arguments);
    expect_refused(run);
    return run.err;
  };
  EXPECT_THAT(refusal("--resume nowhere"), HasSubstr("there is no such folder"));
  std::filesystem::create_directory(folder.file("empty"));
  EXPECT_THAT(refusal("--resume empty"), HasSubstr("there is no checkpoint in that folder"));
  EXPECT_THAT(refusal("--checkpoint-every 3"), HasSubstr("add --checkpoint DIR"));
  folder.write("file", "text");
  EXPECT_THAT(refusal("--checkpoint file"),
              HasSubstr("--checkpoint file: cannot make that folder"));
  folder.json(every_ten);
  const std::string others = refusal("--checkpoint c");
  EXPECT_THAT(others, HasSubstr("holds the checkpoints of another run"));
  EXPECT_THAT(others, HasSubstr("--resume c"));
  EXPECT_EQ(names_in(folder.file("c")).size(), 2u);
}

TEST(Checkpoint, AFullDiskEndsTheRunAndLeavesTheOneBefore) {
  const Folder folder;
  folder.json(every_ten + "--save whole");
  const std::string resuming = every_ten + "--resume c --save resumed";
  const Outcome full =
      folder.run(small + "--schedule fdg --checkpoint c --checkpoint-every 4 --resume c",
                 "trap '' XFSZ; ulimit -f 8;");
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("error: the checkpoint of step 32 was not saved: cannot write"));
  EXPECT_THAT(full.err, HasSubstr("'c/step-30.safetensors' is still there"));
  EXPECT_THAT(names_in(folder.file("c")),
              ElementsAre("step-20.safetensors", "step-30.safetensors"));
  EXPECT_EQ(folder.run(resuming).code, 0);
  EXPECT_EQ(folder.read("resumed"), folder.read("whole"));
}

TEST(Checkpoint, ReportsOnlyWhatWasRunAfterIt) {
  const Folder folder;
  folder.json(every_ten);
  const json run = folder.json(every_ten + "--resume c --tasks t.csv --trace t.json");
  EXPECT_EQ(run["steps"], 40);
  const double makespan = run["measured"]["makespan_ms"];
  EXPECT_NEAR(run["step_ms"].get<double>(), makespan / 10, 1e-9);
  EXPECT_GT(run["measured"]["steady_state"]["batch_period_ms"], 0);
  EXPECT_EQ(run["measured"]["stages_detail"][0]["updates"], 40);
  std::istringstream lines(folder.read("t.csv"));
  std::string line;
  std::getline(lines, line);
  int updates = 0;
  for (; std::getline(lines, line);) updates += line.find(",U,") != std::string::npos ? 1 : 0;
  EXPECT_EQ(updates, 2 * 10);
  EXPECT_THAT(folder.run(every_ten + "--resume c").out,
              HasSubstr("resumed at      step 30; times are those of the steps after it"));
}

}  // namespace
}  // namespace unlatch::test
