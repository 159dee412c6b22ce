// The velocity family against references written out step by step; the parser of optimizers.
#include "models/optimizer.h"

#include <array>
#include <cmath>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

/// Weights after each of ten steps on gradients that depend on the weights.
std::vector<double> run(const OptimizerSpec& spec, double rate) {
  Optimizer<double> optimizer(spec, 1);
  std::array<double, 1> x{0.7};
  std::vector<double> path;
  for (int n = 0; n < 10; ++n) {
    const std::array<double, 1> gradient{2 * x[0] - std::sin(n + 1.0)};
    optimizer.step(x, gradient, rate);
    path.push_back(x[0]);
  }
  return path;
}

void expect_path(const std::vector<double>& path, const std::vector<double>& reference) {
  ASSERT_EQ(path.size(), reference.size());
  for (std::size_t n = 0; n < path.size(); ++n) EXPECT_NEAR(path[n], reference[n], 1e-14) << n;
}

TEST(Optimizer, SgdSubtractsTheScaledGradient) {
  std::vector<double> reference;
  double x = 0.7;
  for (int n = 0; n < 10; ++n) reference.push_back(x = x - 0.1 * (2 * x - std::sin(n + 1.0)));
  expect_path(run(OptimizerSpec::parse("sgd"), 0.1), reference);
}

TEST(Optimizer, MomentumIsTheHeavyBall) {
  std::vector<double> reference;
  double x = 0.7;
  double v = 0;
  for (int n = 0; n < 10; ++n) {
    v = 0.8 * v + (2 * x - std::sin(n + 1.0));
    x -= 0.1 * v;
    reference.push_back(x);
  }
  expect_path(run(OptimizerSpec::parse("momentum:momentum=0.8"), 0.1), reference);
  expect_path(run(OptimizerSpec::parse("sum:momentum=0.8,s=0"), 0.1), reference);
}

TEST(Optimizer, NesterovLooksAhead) {
  std::vector<double> reference;
  double x = 0.7;
  double v = 0;
  for (int n = 0; n < 10; ++n) {
    const double g = 2 * x - std::sin(n + 1.0);
    v = 0.8 * v + g;
    x -= 0.1 * (g + 0.8 * v);
    reference.push_back(x);
  }
  expect_path(run(OptimizerSpec::parse("nesterov:momentum=0.8"), 0.1), reference);
  expect_path(run(OptimizerSpec::parse("sum:momentum=0.8"), 0.1), reference);
}

// DSP eq. (3): y' = x - a g, z' = x - s a g, x' = y' + b (z' - z), with z = x at the start.
TEST(Optimizer, SumEqualsThePapersThreeLines) {
  for (double s : {0.0, 0.5, 1.0, 3.0}) {
    std::vector<double> reference;
    double x = 0.7;
    double z = x;
    for (int n = 0; n < 10; ++n) {
      const double g = 2 * x - std::sin(n + 1.0);
      const double y_next = x - 0.1 * g;
      const double z_next = x - s * 0.1 * g;
      x = y_next + 0.8 * (z_next - z);
      z = z_next;
      reference.push_back(x);
    }
    OptimizerSpec spec = OptimizerSpec::parse("sum:momentum=0.8");
    spec.s = s;
    expect_path(run(spec, 0.1), reference);
  }
}

TEST(Optimizer, SumWithTheInverseOfOneMinusMomentumIsPlainSgd) {
  expect_path(run(OptimizerSpec::parse("sum:momentum=0.75,s=4"), 0.1),
              run(OptimizerSpec::parse("sgd"), 0.4));
}

TEST(Optimizer, DecayUsesTheWeightsAtUpdateTime) {
  Optimizer<double> plain(OptimizerSpec::parse("sgd:decay=0.5"), 2);
  std::array<double, 2> x{2, -4};
  const std::array<double, 2> gradient{1, 1};
  plain.step(x, gradient, 0.1);
  EXPECT_DOUBLE_EQ(x[0], 2 - 0.1 * (1 + 0.5 * 2));
  EXPECT_DOUBLE_EQ(x[1], -4 - 0.1 * (1 - 0.5 * 4));

  Optimizer<double> heavy(OptimizerSpec::parse("momentum:momentum=0.5,decay=0.5"), 2);
  x = {2, -4};
  heavy.step(x, gradient, 0.1);
  EXPECT_DOUBLE_EQ(heavy.state()[0], 2);
  EXPECT_DOUBLE_EQ(heavy.state()[1], -1);
  heavy.step(x, gradient, 0.1);
  EXPECT_DOUBLE_EQ(heavy.state()[0], 0.5 * 2 + 1 + 0.5 * 1.8);
}

TEST(Optimizer, FloatStepsAreTheSameAlgorithm) {
  Optimizer<float> optimizer(OptimizerSpec::parse("momentum:momentum=0.5"), 1);
  std::array<float, 1> x{1};
  const std::array<float, 1> gradient{0.5F};
  optimizer.step(x, gradient, 0.25);
  optimizer.step(x, gradient, 0.25);
  EXPECT_EQ(x[0], 1 - 0.125F - 0.1875F);
  EXPECT_EQ(gradient[0], 0.5F);
}

TEST(Optimizer, SpansOfAnotherSizeAreRefused) {
  Optimizer<double> optimizer(OptimizerSpec::parse("momentum"), 2);
  std::array<double, 3> x{};
  const std::array<double, 3> gradient{};
  EXPECT_THAT(message_of([&] { optimizer.step(x, gradient, 0.1); }), HasSubstr("state of 2"));
}

TEST(OptimizerSpec, HasTheContractsDefaults) {
  const OptimizerSpec sum = OptimizerSpec::parse("sum");
  EXPECT_EQ(sum.momentum, 0.9);
  EXPECT_EQ(sum.s, 1);
  EXPECT_EQ(OptimizerSpec::parse("momentum").s, 0);
  EXPECT_EQ(OptimizerSpec::parse("nesterov").s, 1);
  EXPECT_EQ(OptimizerSpec::parse("sgd").momentum, 0);
  EXPECT_EQ(OptimizerSpec::parse("adamw").weight_decay, 0.01);
  EXPECT_EQ(OptimizerSpec::parse("adam").weight_decay, 0);
}

TEST(OptimizerSpec, UnknownNamesKeysAndValuesAreRefused) {
  const auto error = [](std::string_view text) {
    return message_of([&] { OptimizerSpec::parse(text); });
  };
  EXPECT_THAT(error("sdg"), AllOf(HasSubstr("'sdg'"), HasSubstr("sgd")));
  EXPECT_THAT(error("sgd:momentum=0.9"), AllOf(HasSubstr("'momentum'"), HasSubstr("decay")));
  EXPECT_THAT(error("momentum:momentun=0.9"), HasSubstr("'momentun'"));
  EXPECT_THAT(error("nesterov:s=1"), HasSubstr("'s'"));
  EXPECT_THAT(error("momentum:momentum=1"), HasSubstr("below 1"));
  EXPECT_THAT(error("momentum:momentum=-0.1"), HasSubstr("'-0.1'"));
  EXPECT_THAT(error("momentum:momentum=0.9x"), HasSubstr("'0.9x'"));
  EXPECT_THAT(error("sum:s=nan"), HasSubstr("'nan'"));
  EXPECT_THAT(error("sum:s=1,s=2"), HasSubstr("twice"));
  EXPECT_THAT(error("sum:"), HasSubstr("empty"));
  EXPECT_THAT(error("sum:s=1,"), HasSubstr("empty"));
  EXPECT_THAT(error(""), HasSubstr("missing"));
  EXPECT_THAT(error("adamx"), AllOf(HasSubstr("'adamx'"), HasSubstr("adam")));
  EXPECT_THAT(error("adam:beta=0.9"), AllOf(HasSubstr("'beta'"), HasSubstr("beta1")));
  EXPECT_THAT(error("adam:centered=yes"), HasSubstr("'centered'"));
  EXPECT_THAT(error("adam:beta2=1"), HasSubstr("beta2 must be below 1"));
  EXPECT_THAT(error("adam:epsilon=-1"), HasSubstr("'-1'"));
  EXPECT_THAT(error("rmsprop:centered=maybe"), HasSubstr("'maybe'"));
  EXPECT_THAT(error("lars:eta=1"), HasSubstr("'eta'"));
}

}  // namespace
}  // namespace unlatch::models
