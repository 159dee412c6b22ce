// Optimizers against the weights that PyTorch's make, in torch_optimizers.txt.
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include "models/optimizer.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

constexpr std::size_t parameters = 5;

/// One line of the file.
struct Case {
  std::string spec;
  double rate = 0;
  int steps = 0;
  std::array<double, parameters> weights{};
};

std::vector<Case> cases() {
  std::ifstream file(UNLATCH_SOURCE_DIR "/tests/models/torch_optimizers.txt");
  std::vector<Case> found;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    Case& one = found.emplace_back();
    std::istringstream words(line);
    words >> one.spec >> one.rate >> one.steps;
    for (double& weight : one.weights) words >> weight;
    EXPECT_TRUE(words) << line;
  }
  return found;
}

/// As tests/torch/optimizer_steps.py has it.
template <class Real>
std::array<Real, parameters> weights_after(const Case& one) {
  std::array<Real, parameters> weights{}, gradient{};
  for (std::size_t i = 0; i < parameters; ++i) {
    weights[i] = static_cast<Real>(std::cos(static_cast<double>(i) + 1));
  }
  Optimizer<Real> optimizer(OptimizerSpec::parse(one.spec), parameters);
  for (int step = 0; step < one.steps; ++step) {
    for (std::size_t i = 0; i < parameters; ++i) {
      const double number = static_cast<double>(i) + 1;
      gradient[i] = static_cast<Real>(number * weights[i] - std::sin((step + 1) * number));
    }
    optimizer.step(weights, gradient, one.rate);
  }
  return weights;
}

TEST(TorchOptimizers, MakeTheSameWeights) {
  const std::vector<Case> all = cases();
  ASSERT_EQ(all.size(), 58U);
  for (const Case& one : all) {
    SCOPED_TRACE(one.spec + " after " + std::to_string(one.steps));
    const auto in_double = weights_after<double>(one);
    const auto in_float = weights_after<float>(one);
    for (std::size_t i = 0; i < parameters; ++i) {
      EXPECT_NEAR(in_double[i], one.weights[i], 1e-14);
      EXPECT_NEAR(in_float[i], one.weights[i], 1e-5);
    }
  }
}

}  // namespace
}  // namespace unlatch::models
