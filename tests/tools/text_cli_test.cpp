// Text through the commands that train: a text of this test's own, and the King James Bible.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string small = " --model transformer:layers=2,width=16,heads=2,sequence=16";

std::string psalm(int verses) {
  std::string text;
  for (int n = 0; n < verses; ++n) {
    text += fmt::format("{} O give thanks, for his mercy endureth for ever.\n", n % 10);
  }
  return text;
}

TEST(TrainText, GoesThroughEveryCommandAndCountsTokens) {
  const Folder folder;
  folder.write("psalm.txt", psalm(300));
  const std::string what = small + " --data text:" + folder.file("psalm.txt");
  double loss = 0;
  for (const int stages : {1, 3}) {
    const json run = folder.json(fmt::format(
        "train --schedule 1f1b --microbatches 2 --batch-size 8 --steps 60 --lr 0.1 --optimizer "
        "momentum --stages {} --save w{}{}",
        stages, stages, what));
    loss = run["test_loss"].get<double>();
    EXPECT_LT(loss, 1.0) << "ln 256 is 5.5; the bytes of one verse alone have 2.9";
    EXPECT_EQ(run["test_samples"], 15000 / 10 / 16 * 16) << "tokens of whole windows";
    // Nothing is left out of the facts of the layers.
    for (const json& rank : run["measured"]["memory_detail"]) {
      EXPECT_EQ(rank["predicted_peak_bytes"], rank["kept_peak_bytes"]);
    }
  }
  EXPECT_EQ(folder.read("w1"), folder.read("w3"));
  EXPECT_THAT(folder.read("w1"), HasSubstr("\"block2.attention.qkv.weight\""));
  EXPECT_EQ(folder.json(fmt::format("eval --weights w3{}", what))["loss"], loss);
  folder.json(fmt::format(
      "profile --batch-size 2,4 --samples 1 --warm-up 1 --workers 1 --save p.json{}", what));
  const json simulated =
      folder.json("simulate --schedule fdg --profile p.json --stages 2 --batch-size 4");
  EXPECT_EQ(simulated["partition"].size(), 2u);
}

const std::string tied = small + ",tied=yes";

TEST(TrainTiedHead, SavesTheTableOnceAndIsTheSameOnAnyNumberOfStages) {
  const Folder folder;
  folder.write("psalm.txt", psalm(300));
  const std::string data = " --data text:" + folder.file("psalm.txt");
  const std::string train =
      "train --schedule 1f1b --microbatches 2 --batch-size 8 --steps 60 --lr 0.1 --optimizer "
      "momentum --clip-norm 3 --evaluate-every 30";
  std::vector<double> losses;
  for (const int stages : {1, 2, 3}) {
    const json run = folder.json(
        fmt::format("{}{}{} --stages {} --save w{}", train, tied, data, stages, stages));
    losses.push_back(run["test_loss"].get<double>());
    EXPECT_LT(losses.back(), 3.5) << "ln 256 is 5.5";
    EXPECT_NEAR(losses.back(), losses.front(), 1e-4);
    for (const json& rank : run["measured"]["memory_detail"]) {
      EXPECT_EQ(rank["predicted_peak_bytes"], rank["kept_peak_bytes"]);
    }
  }
  EXPECT_EQ(folder.read("w2"), folder.read("w3"));
  EXPECT_THAT(folder.read("w3"), HasSubstr("\"embedding.token\""));
  EXPECT_THAT(folder.read("w3"), testing::Not(HasSubstr("\"head.weight\"")));
  EXPECT_EQ(folder.json("eval --weights w3" + tied + data)["loss"], losses.back());
  const Outcome other = folder.run("eval --weights w3" + small + data);
  expect_refused(other);
  EXPECT_THAT(other.err, HasSubstr("no tensor 'head.weight'"));
  // The same model from a file.
  folder.json("partition --stages 2 --save-model model.json" + tied + data);
  folder.json(fmt::format("{} --model model.json{} --stages 3 --save again", train, data));
  EXPECT_EQ(folder.json("eval --weights again --model model.json" + data)["loss"], losses.back());
}

TEST(TrainTiedHead, ResumesBitForBit) {
  const Folder folder;
  folder.write("psalm.txt", psalm(300));
  const std::string train = "train --schedule zb-h1 --microbatches 4 --stages 3 --batch-size 8 " +
                            std::string("--steps 20 --lr 0.1 --optimizer adam") + tied +
                            " --data text:" + folder.file("psalm.txt");
  folder.json(train + " --save whole");
  folder.json(train + " --checkpoint c --checkpoint-every 15 --save stopping");
  EXPECT_EQ(folder.json(train + " --resume c --save resumed")["resumed_at_step"], 15);
  EXPECT_EQ(folder.read("resumed"), folder.read("whole"));
}

/// Tables of 256 tokens of width 16, 4 bytes a number.
TEST(TrainTiedHead, IsProfiledAndSimulatedWithACopyOnTheLastStage) {
  const Folder folder;
  folder.write("psalm.txt", psalm(300));
  const std::string data = " --data text:" + folder.file("psalm.txt");
  const std::string profile = "profile --batch-size 4 --samples 1 --warm-up 1 --workers 1";
  folder.json(profile + " --save tied.json" + tied + data);
  folder.json(profile + " --save untied.json" + small + data);
  const auto peaks = [&](const std::string& costs, int stages) {
    std::vector<std::int64_t> bytes;
    const json run = folder.json(fmt::format(
        "simulate --schedule 1f1b --microbatches 1 --batch-size 4 {} --stages {}", costs, stages));
    for (const json& rank : run["ranks_detail"]) bytes.push_back(rank["peak_memory_bytes"]);
    return bytes;
  };
  constexpr std::int64_t weights_and_gradient = 2 * 256 * 16 * 4;
  for (const auto& [with, without] :
       {std::pair<std::string, std::string>{"--profile tied.json", "--profile untied.json"},
        {"--cluster 4xP40" + tied, "--cluster 4xP40" + small}}) {
    SCOPED_TRACE(with);
    EXPECT_EQ(peaks(with, 1).at(0), peaks(without, 1).at(0) - weights_and_gradient);
    EXPECT_EQ(peaks(with + " --partition 4/3", 2), peaks(without + " --partition 4/3", 2));
  }
  const std::string train = "train --schedule 1f1b --batch-size 4 --steps 3 --stages 2" + data;
  folder.json(train + tied + " --profile tied.json");
  const Outcome other = folder.run(train + tied + " --profile untied.json");
  expect_refused(other);
  EXPECT_THAT(other.err, HasSubstr("its layer head is not tied to the embedding, the model's is"));
}

TEST(TrainTiedHead, SaysWhereItCannotBeTrained) {
  const Folder folder;
  folder.write("psalm.txt", psalm(300));
  const auto said = [&](const std::string& rest) {
    const Outcome outcome =
        folder.run("train --steps 4 --batch-size 8 --data text:" + folder.file("psalm.txt") + tied +
                   " --schedule " + rest);
    expect_refused(outcome);
    return outcome.err;
  };
  EXPECT_THAT(said("fdg --stages 2"),
              testing::AllOf(HasSubstr("fdg updates a stage before the gradients of the others"),
                             HasSubstr("tied=no")));
  EXPECT_THAT(said("local-sgd --stages 2 --replicas 2"), HasSubstr("tied=no"));
  EXPECT_THAT(said("bp --stages 2 --clip-norm 1,scope=stage"),
              HasSubstr("clip by the norm of the model, or untie the head"));
  EXPECT_THAT(said("bp --stages 2 --clock simulated --cluster 4xP40"),
              HasSubstr("--clock simulated with a tied head"));
  EXPECT_THAT(said("bp --device cuda"),
              testing::AllOf(HasSubstr("trained on the CPU alone"), HasSubstr("tied=no")));
  const Outcome profile =
      folder.run("profile --device cuda" + tied + " --data text:" + folder.file("psalm.txt"));
  expect_refused(profile);
  EXPECT_THAT(profile.err, HasSubstr("trained on the CPU alone"));
  folder.json("train --steps 4 --batch-size 8 --schedule fdg --stages 1 --data text:" +
              folder.file("psalm.txt") + tied);
}

TEST(TrainText, SaysWhatDoesNotGoTogether) {
  const Folder folder;
  folder.write("psalm.txt", psalm(1));
  const std::string text = " --data text:" + folder.file("psalm.txt");
  const auto said = [&](const std::string& rest) {
    const Outcome outcome = folder.run("train --schedule bp --steps 1" + rest);
    expect_refused(outcome);
    return outcome.err;
  };
  EXPECT_THAT(said(" --model lenet" + text), HasSubstr("text is for the model transformer"));
  EXPECT_THAT(said(" --model transformer --data digits"), HasSubstr("text:FILE"));
  EXPECT_THAT(said(" --model transformer" + text), HasSubstr("no window of 64 tokens"));
  EXPECT_THAT(said(" --model transformer:head=4" + text), HasSubstr("heads"));
}

TEST(TrainText, TakesTheKingJamesBible) {
  if (std::system("command -v bible >/dev/null") != 0) {
    GTEST_SKIP() << "the program bible is missing: tools/install_packages --data";
  }
  const Folder folder;
  const std::string file = folder.file("kjv.txt");
  ASSERT_EQ(std::system(fmt::format("bible -f 'Gen1:1-Rev22:21' </dev/null >{}", file).c_str()), 0);
  const std::string text = folder.read("kjv.txt");
  EXPECT_THAT(text, testing::StartsWith("Ge1:1 In the beginning God created"));
  const json run = folder.json("train --schedule bp --batch-size 8 --steps 30 --lr 0.1" + small +
                               " --data text:" + file);
  EXPECT_LT(run["train_loss"].get<double>(), 4.5);
  EXPECT_EQ(run["test_samples"], (text.size() / 10 - 1) / 16 * 16);
}

}  // namespace
}  // namespace unlatch::test
