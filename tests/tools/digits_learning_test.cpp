// Real learning: every schedule trains LeNet on the shipped digits to at least 97 % test accuracy.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

class DigitsLearning : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(DigitsLearning, ReachesNinetySevenPercent) {
  const auto& [schedule, stages] = GetParam();
  const bool in_parts = schedule.starts_with("gpipe") || schedule.starts_with("1f1b");
  const Folder folder;
  const nlohmann::json result = folder.json(
      "train --schedule " + schedule + " --stages " + std::to_string(stages) +
      (in_parts ? " --microbatches 4" : "") +
      " --model lenet --data digits --batch-size 32 --epochs 60 --lr 0.2 --lr-schedule linear"
      " --optimizer sgd --weight-decay 0.001");
  EXPECT_GE(result.at("test_accuracy").get<double>(), 0.97);
  EXPECT_EQ(result.at("test_samples").get<int>(), 359);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DigitsLearning,
                         testing::Combine(testing::Values("bp", "gpipe", "gpipe:recompute=always",
                                                          "1f1b", "ddg", "ddg:weights=in_place",
                                                          "fr", "fdg", "fdg:order=bf",
                                                          "fdg:shrink=0.7", "dsp"),
                                          testing::Values(2, 3)));

}  // namespace
}  // namespace unlatch::test
