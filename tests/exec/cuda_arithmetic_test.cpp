// The arithmetic of the CUDA kernels, from the source that nvcc compiles, against the CPU's.
#include "exec/cuda_arithmetic.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "exec/cuda_step.h"
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

TEST(CudaArithmetic, StepsWeightsAsTheOptimizersDo) {
  for (const char* text : {"sgd", "sgd:decay=0.01", "momentum:momentum=0.9",
                           "nesterov:momentum=0.9,decay=0.1", "sum:momentum=0.8,s=2"}) {
    SCOPED_TRACE(text);
    const models::OptimizerSpec spec = models::OptimizerSpec::parse(text);
    std::vector<float> expected = random_floats(100, 1);
    std::vector<float> weights = expected;
    std::vector<float> velocity(100, 0.0F);
    models::Optimizer<float> optimizer(spec, weights.size());
    for (unsigned update = 0; update < 5; ++update) {
      const double rate = 0.1 / (update + 1);
      std::vector<float> gradient = random_floats(100, 10 + update);
      optimizer.step(expected, gradient, rate);
      const Step step = step_of(spec, rate);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        step_weight(step, weights[i], gradient[i], spec.momentum == 0 ? nullptr : &velocity[i]);
      }
      EXPECT_EQ(gradient, std::vector<float>(100, 0.0F));
    }
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_FLOAT_EQ(weights[i], expected[i]);
  }
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
