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
