#include "exec/dnn_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

TEST(SoftmaxCrossEntropy, IsTheMeanOfTheRows) {
  const std::vector<float> logits{0, 0, std::log(3.0F), 0};
  const std::vector<std::int32_t> labels{1, 0};
  std::vector<float> gradient(4);
  const Loss loss = softmax_cross_entropy(logits, labels, 0.5, gradient);
  EXPECT_NEAR(loss.loss, (std::log(2.0) - std::log(0.75)) / 2, 1e-7);
  EXPECT_EQ(loss.samples, 2);
  EXPECT_FLOAT_EQ(gradient[0], 0.25F * 0.5F);
  EXPECT_FLOAT_EQ(gradient[1], 0.25F * -0.5F);
  EXPECT_FLOAT_EQ(gradient[2], 0.25F * -0.25F);
  EXPECT_FLOAT_EQ(gradient[3], 0.25F * 0.25F);
}

TEST(SoftmaxCrossEntropy, CountsTheRowsWhoseLargestLogitIsTheLabels) {
  const std::vector<float> logits{1, 2, 3, 3, 2, 1};
  const std::vector<std::int32_t> labels{2, 2};
  EXPECT_EQ(softmax_cross_entropy(logits, labels, 1, {}).correct, 1);
}

TEST(SoftmaxCrossEntropy, SurvivesLargeLogits) {
  const std::vector<float> logits{1e30F, 0, -1e30F, 1000};
  const std::vector<std::int32_t> labels{0, 1};
  std::vector<float> gradient(4);
  EXPECT_EQ(softmax_cross_entropy(logits, labels, 1, gradient).loss, 0);
  for (const float g : gradient) EXPECT_EQ(g, 0);
}

TEST(SoftmaxCrossEntropy, ShowsThatATrainingDiverged) {
  const std::vector<float> logits{NAN, 0};
  const std::vector<std::int32_t> labels{0};
  EXPECT_TRUE(std::isnan(softmax_cross_entropy(logits, labels, 1, {}).loss));
}

TEST(SoftmaxCrossEntropy, RefusesALabelThatIsNoClass) {
  const std::vector<float> logits{0, 0};
  const std::vector<std::int32_t> labels{2};
  EXPECT_THROW(softmax_cross_entropy(logits, labels, 1, {}), Error);
}

}  // namespace
}  // namespace unlatch::exec
