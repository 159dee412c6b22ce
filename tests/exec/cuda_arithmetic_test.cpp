// The arithmetic of the CUDA kernels, from the source that nvcc compiles, against the CPU's.
#include "exec/cuda_arithmetic.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "exec/dnn_loss.h"

namespace unlatch::exec::cuda {
namespace {

std::vector<float> random_floats(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-3, 3);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(random);
  return values;
}

TEST(CudaArithmetic, FindsTheLossOfTheCpu) {
  constexpr int rows = 7, classes = 10;
  std::vector<float> logits = random_floats(rows * classes, 3);
  logits[4] = 400;  // exp() of it would overflow
  std::vector<std::int32_t> labels;
  for (int r = 0; r < rows; ++r) labels.push_back(r * 3 % classes);
  std::vector<float> expected_gradient(logits.size()), gradient(logits.size());
  const Loss expected = softmax_cross_entropy(logits, labels, 0.5, expected_gradient);
  RowLoss sum;
  for (int r = 0; r < rows; ++r) {
    const RowLoss row =
        row_loss(&logits[r * classes], classes, labels[r], 0.5 / rows, &gradient[r * classes]);
    sum.loss += row.loss;
    sum.correct += row.correct;
    sum.valid += row.valid;
  }
  EXPECT_DOUBLE_EQ(sum.loss / rows, expected.loss);
  EXPECT_EQ(sum.correct, expected.correct);
  EXPECT_EQ(sum.valid, rows);
  EXPECT_EQ(gradient, expected_gradient);
  EXPECT_EQ(row_loss(logits.data(), classes, 10, 1, nullptr).valid, 0);
  EXPECT_EQ(row_loss(logits.data(), classes, -1, 1, nullptr).valid, 0);
}

TEST(CudaArithmetic, CountsStepsLeftOut) {
  GradientCheck check;
  for (const int not_finite : {0, 1, 1, 0}) {
    check.not_finite = not_finite;
    end_step(check);
    EXPECT_EQ(check.not_finite, 0);
  }
  EXPECT_EQ(check.left_out, 2);
}

TEST(CudaArithmetic, SumsAChannelInSharesThatMissNothing) {
  for (const ChannelShape shape : {ChannelShape{3, 4, 5}, {1, 7, 1}, {6, 2, 1}, {2, 1, 9}}) {
    const std::size_t n = static_cast<std::size_t>(shape.samples) *
                          static_cast<std::size_t>(shape.channels) *
                          static_cast<std::size_t>(shape.plane);
    std::vector<double> values(n), expected(static_cast<std::size_t>(shape.channels), 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = static_cast<double>(i % 13);  // whole: no order changes the sum
      expected[channel_of(shape, i)] += values[i];
    }
    for (int channel = 0; channel < shape.channels; ++channel) {
      for (const int parts : {1, 3, 256}) {
        float sum = 0;
        for (int part = 0; part < parts; ++part) {
          sum += channel_sum(shape, values.data(), channel, part, parts);
        }
        EXPECT_EQ(sum, expected[static_cast<std::size_t>(channel)]);
      }
    }
  }
  EXPECT_EQ(channel_of({2, 3, 4}, 0), 0U);
  EXPECT_EQ(channel_of({2, 3, 4}, 11), 2U);
  EXPECT_EQ(channel_of({2, 3, 4}, 12), 0U);
}

TEST(CudaArithmetic, FindsTheConstantsOfEverySample) {
  const std::vector<std::int32_t> labels{2, 0, -1, 3};
  const ConstantRows by_class{labels.data(), 3, 4, 5};
  EXPECT_EQ(constant_of(by_class, 0), 10U);
  EXPECT_EQ(constant_of(by_class, 4), 14U);
  EXPECT_EQ(constant_of(by_class, 7), 2U);
  EXPECT_EQ(constant_of(by_class, 12), 2U) << "a label that is no class";
  EXPECT_EQ(constant_of(by_class, 19), 4U) << "a label that is no class";
  const ConstantRows for_all{nullptr, 3, 4, 5};
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(constant_of(for_all, i), i % 5);
}

TEST(CudaArithmetic, StepsEveryConstantDownTheSlopesOfItsSamples) {
  const std::vector<std::int32_t> labels{1, 0, 1};
  const std::vector<float> slope{1, 2, 30, 40, 500, 600};
  const auto stepped = [&](const std::int32_t* by_label) {
    std::vector<float> constants(4, 7.0F);
    for (const std::size_t column : {0U, 1U}) {
      step_constants({by_label, 2, 3, 2}, slope.data(), column, 0.5, constants.data());
    }
    return constants;
  };
  EXPECT_EQ(stepped(labels.data()), (std::vector<float>{-8, -13, -243.5F, -294}));
  EXPECT_EQ(stepped(nullptr), (std::vector<float>{-258.5F, -314, 7, 7}));
}

TEST(CudaArithmetic, SumsSquaresInSharesThatMissNothing) {
  std::vector<float> values(1000);
  double expected = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 17) - 8;  // whole: no order changes the sum
    expected += values[i] * values[i];
  }
  for (const int parts : {1, 3, 256, 5000}) {
    double sum = 0;
    for (int part = 0; part < parts; ++part) {
      sum += square_sum(values.data(), values.size(), part, parts);
    }
    EXPECT_EQ(sum, expected);
  }
}

TEST(CudaArithmetic, KeepsANumberThatIsNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(relu(nan)));
  EXPECT_EQ(relu(-1), 0);
  EXPECT_EQ(relu(2), 2);
  EXPECT_EQ(relu_gradient(0, 5), 0);
  EXPECT_EQ(relu_gradient(1, 5), 5);
  std::vector<float> logits{1, nan, 2};
  EXPECT_TRUE(std::isnan(row_loss(logits.data(), 3, 0, 1, nullptr).loss));
}

}  // namespace
}  // namespace unlatch::exec::cuda
