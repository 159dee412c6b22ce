// Each optimizer against its paper's lines, written out in double for several weights at once.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "models/optimizer.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using Numbers = std::vector<double>;

constexpr int steps = 12;
constexpr double rate = 0.03;
/// Two matrices with a bias behind the first.
const std::vector<ParameterTensor> tensors{{0, 4, true}, {4, 2, false}, {6, 3, true}};

Numbers start() {
  Numbers weights(9);
  for (std::size_t i = 0; i < 9; ++i) weights[i] = std::cos(2.0 * static_cast<double>(i) + 1);
  return weights;
}

Numbers gradient_at(const Numbers& weights, int step) {
  Numbers gradient(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double number = static_cast<double>(i) + 1;
    gradient[i] = 0.4 * number * weights[i] - std::sin(step * number);
  }
  return gradient;
}

template <class Real>
Numbers run(const OptimizerSpec& spec, const std::vector<ParameterTensor>& parts) {
  std::vector<Real> weights(9), gradient(9);
  std::ranges::copy(start(), weights.begin());
  Optimizer<Real> optimizer(spec, parts);
  for (int t = 1; t <= steps; ++t) {
    std::ranges::copy(gradient_at({weights.begin(), weights.end()}, t), gradient.begin());
    optimizer.step(weights, gradient, rate);
  }
  return {weights.begin(), weights.end()};
}

/// The step of one weight by its paper: (weight, gradient, t, state of this weight) gives the new
/// weight.
using PaperStep = std::function<double(double w, double g, int t, std::array<double, 3>& state)>;

Numbers by_paper(const PaperStep& step) {
  Numbers weights = start();
  std::vector<std::array<double, 3>> state(9);
  for (int t = 1; t <= steps; ++t) {
    const Numbers gradient = gradient_at(weights, t);
    for (std::size_t i = 0; i < 9; ++i) weights[i] = step(weights[i], gradient[i], t, state[i]);
  }
  return weights;
}

void expect_near(const Numbers& found, const Numbers& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << i;
}

void expect_paper(std::string_view text, const PaperStep& step) {
  SCOPED_TRACE(text);
  const OptimizerSpec spec = OptimizerSpec::parse(text);
  const Numbers wanted = by_paper(step);
  expect_near(run<double>(spec, tensors), wanted, 1e-13);
  expect_near(run<float>(spec, tensors), wanted, 2e-5);
}

/// Adam's first lines: both means, corrected, after the decay went into the gradient.
struct Moments {
  double mean, square;
  Moments(double g, int t, std::array<double, 3>& state, double b1, double b2) {
    state[0] = b1 * state[0] + (1 - b1) * g;
    state[1] = b2 * state[1] + (1 - b2) * g * g;
    mean = state[0] / (1 - std::pow(b1, t));
    square = state[1] / (1 - std::pow(b2, t));
  }
};

TEST(OptimizerRules, AdaGradDividesByTheRootOfAllSquares) {
  expect_paper("adagrad:epsilon=0.01,lr_decay=0.2,decay=0.1",
               [](double w, double g, int t, auto& s) {
                 g += 0.1 * w;
                 s[0] += g * g;
                 return w - rate / (1 + (t - 1) * 0.2) * g / (std::sqrt(s[0]) + 0.01);
               });
}

TEST(OptimizerRules, AdaDeltaStepsByTheRatioOfTwoRoots) {
  expect_paper("adadelta:rho=0.8,epsilon=0.01,decay=0.1", [](double w, double g, int, auto& s) {
    g += 0.1 * w;
    s[0] = 0.8 * s[0] + 0.2 * g * g;
    const double delta = -std::sqrt(s[1] + 0.01) / std::sqrt(s[0] + 0.01) * g;
    s[1] = 0.8 * s[1] + 0.2 * delta * delta;
    return w + rate * delta;
  });
}

TEST(OptimizerRules, RmsPropDividesByTheRootOfAMean) {
  expect_paper("rmsprop:alpha=0.8,epsilon=0.01,decay=0.1", [](double w, double g, int, auto& s) {
    g += 0.1 * w;
    s[0] = 0.8 * s[0] + 0.2 * g * g;
    return w - rate * g / (std::sqrt(s[0]) + 0.01);
  });
  expect_paper("rmsprop:alpha=0.8,epsilon=0.01,momentum=0.7,centered=yes,decay=0.1",
               [](double w, double g, int, auto& s) {
                 g += 0.1 * w;
                 s[0] = 0.8 * s[0] + 0.2 * g * g;
                 s[1] = 0.8 * s[1] + 0.2 * g;
                 s[2] = 0.7 * s[2] + g / (std::sqrt(s[0] - s[1] * s[1]) + 0.01);
                 return w - rate * s[2];
               });
}

TEST(OptimizerRules, AdamDividesCorrectedMeans) {
  expect_paper("adam:beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1",
               [](double w, double g, int t, auto& s) {
                 const Moments m(g + 0.1 * w, t, s, 0.8, 0.9);
                 return w - rate * m.mean / (std::sqrt(m.square) + 0.01);
               });
}

TEST(OptimizerRules, AdamWDecaysTheWeightsAlone) {
  expect_paper("adamw:beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1",
               [](double w, double g, int t, auto& s) {
                 const Moments m(g, t, s, 0.8, 0.9);
                 return w - rate * (m.mean / (std::sqrt(m.square) + 0.01) + 0.1 * w);
               });
}

TEST(OptimizerRules, AmsGradNeverForgetsALargeSquare) {
  expect_paper("amsgrad:beta1=0.8,beta2=0.5,epsilon=0.01,decay=0.1",
               [](double w, double g, int t, auto& s) {
                 const Moments m(g + 0.1 * w, t, s, 0.8, 0.5);
                 s[2] = std::max(s[2], s[1]);
                 const double largest = s[2] / (1 - std::pow(0.5, t));
                 return w - rate * m.mean / (std::sqrt(largest) + 0.01);
               });
}

TEST(OptimizerRules, AdaMaxTakesTheInfinityNorm) {
  expect_paper("adamax:beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1",
               [](double w, double g, int t, auto& s) {
                 g += 0.1 * w;
                 s[0] = 0.8 * s[0] + 0.2 * g;
                 s[1] = std::max(0.9 * s[1], std::abs(g) + 0.01);
                 return w - rate / (1 - std::pow(0.8, t)) * s[0] / s[1];
               });
}

TEST(OptimizerRules, NAdamLooksAheadByTheMomentumOfTheNextStep) {
  const auto mu = [](int t) { return 0.8 * (1 - 0.5 * std::pow(0.96, t * 0.3)); };
  expect_paper("nadam:beta1=0.8,beta2=0.9,epsilon=0.01,momentum_decay=0.3,decay=0.1",
               [mu](double w, double g, int t, auto& s) {
                 g += 0.1 * w;
                 const Moments m(g, t, s, 0.8, 0.9);
                 double product = 1;
                 for (int n = 1; n <= t; ++n) product *= mu(n);
                 const double ahead =
                     mu(t + 1) * s[0] / (1 - product * mu(t + 1)) + (1 - mu(t)) * g / (1 - product);
                 return w - rate * ahead / (std::sqrt(m.square) + 0.01);
               });
}

TEST(OptimizerRules, RAdamRectifiesOnceItsVarianceIsTractable) {
  expect_paper(
      "radam:beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1", [](double w, double g, int t, auto& s) {
        const Moments m(g + 0.1 * w, t, s, 0.8, 0.9);
        const double forever = 2 / (1 - 0.9) - 1;
        const double power = std::pow(0.9, t);
        const double now = forever - 2 * t * power / (1 - power);
        if (now <= 5) return w - rate * m.mean;
        const double rectified =
            std::sqrt((now - 4) * (now - 2) * forever / ((forever - 4) * (forever - 2) * now));
        const double root = (std::sqrt(s[1]) + 0.01) / std::sqrt(1 - power);
        return w - rate * rectified * m.mean / root;
      });
}

// ---- whole tensors ------------------------------------------------------------------------------

double norm(const Numbers& numbers) {
  return std::sqrt(std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), 0.0));
}

Numbers part(const Numbers& all, const ParameterTensor& tensor) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(tensor.first);
  return {begin, begin + static_cast<std::ptrdiff_t>(tensor.elements)};
}

TEST(OptimizerRules, LarsTrustsATensorByItsNorms) {
  Numbers weights = start(), velocity(9);
  for (int t = 1; t <= steps; ++t) {
    const Numbers gradient = gradient_at(weights, t);
    const Numbers before = weights;
    for (const ParameterTensor& tensor : tensors) {
      const double of_weights = norm(part(before, tensor));
      const double of_gradient = norm(part(gradient, tensor));
      const double local = 0.02 * of_weights / (of_gradient + 0.1 * of_weights + 1e-3);
      for (std::size_t i = tensor.first; i < tensor.first + tensor.elements; ++i) {
        const double g = tensor.adapted ? local * (gradient[i] + 0.1 * before[i]) : gradient[i];
        velocity[i] = 0.7 * velocity[i] + g;
        weights[i] -= rate * velocity[i];
      }
    }
  }
  const auto spec = OptimizerSpec::parse("lars:momentum=0.7,trust=0.02,epsilon=1e-3,decay=0.1");
  expect_near(run<double>(spec, tensors), weights, 1e-13);
  expect_near(run<float>(spec, tensors), weights, 2e-5);
}

TEST(OptimizerRules, LambScalesAdamsStepToTheNormOfTheWeights) {
  Numbers weights = start();
  std::vector<std::array<double, 3>> state(9);
  for (int t = 1; t <= steps; ++t) {
    const Numbers gradient = gradient_at(weights, t);
    const Numbers before = weights;
    Numbers direction(9);
    for (const ParameterTensor& tensor : tensors) {
      for (std::size_t i = tensor.first; i < tensor.first + tensor.elements; ++i) {
        const Moments m(gradient[i], t, state[i], 0.8, 0.9);
        direction[i] =
            m.mean / (std::sqrt(m.square) + 0.01) + (tensor.adapted ? 0.1 * before[i] : 0);
      }
      const double ratio =
          tensor.adapted ? norm(part(before, tensor)) / norm(part(direction, tensor)) : 1;
      for (std::size_t i = tensor.first; i < tensor.first + tensor.elements; ++i) {
        weights[i] -= rate * ratio * direction[i];
      }
    }
  }
  const auto spec = OptimizerSpec::parse("lamb:beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1");
  expect_near(run<double>(spec, tensors), weights, 1e-13);
  expect_near(run<float>(spec, tensors), weights, 2e-5);
}

TEST(OptimizerRules, TensorsOfZerosAreTrusted) {
  for (const char* text : {"lars:momentum=0,decay=0", "lamb:decay=0"}) {
    SCOPED_TRACE(text);
    Optimizer<double> optimizer(OptimizerSpec::parse(text), {{0, 2, true}, {2, 2, true}});
    std::array<double, 4> weights{0, 0, 3, 4};
    optimizer.step(weights, std::array<double, 4>{1, 1, 0, 0}, 0.5);
    EXPECT_NEAR(weights[0], -0.5, 1e-5) << "a direction of 1, times the ratio 1";
    EXPECT_EQ(weights[2], 3) << "no gradient, no step";
  }
}

// ---- every optimizer ----------------------------------------------------------------------------

/// Wherever stages are cut, between tensors, every weight takes the same bits.
TEST(OptimizerRules, NoSplitChangesABit) {
  for (const std::string_view name : optimizer_names()) {
    SCOPED_TRACE(name);
    OptimizerSpec spec = OptimizerSpec::parse(name);
    spec.weight_decay = 0.1;
    const Numbers whole = run<float>(spec, tensors);
    for (std::size_t cut = 1; cut < tensors.size(); ++cut) {
      const std::size_t place = tensors[cut].first;
      std::vector<ParameterTensor> upper(tensors.begin() + static_cast<std::ptrdiff_t>(cut),
                                         tensors.end());
      for (ParameterTensor& tensor : upper) tensor.first -= place;
      Optimizer<float> first(
          spec, {tensors.begin(), upper.size() == 2 ? tensors.begin() + 1 : tensors.begin() + 2});
      Optimizer<float> second(spec, upper);
      std::vector<float> weights(9), gradient(9);
      std::ranges::copy(start(), weights.begin());
      for (int t = 1; t <= steps; ++t) {
        std::ranges::copy(gradient_at({weights.begin(), weights.end()}, t), gradient.begin());
        first.step(std::span(weights).first(place), std::span<const float>(gradient).first(place),
                   rate);
        second.step(std::span(weights).subspan(place),
                    std::span<const float>(gradient).subspan(place), rate);
      }
      EXPECT_EQ(Numbers(weights.begin(), weights.end()), whole);
    }
  }
}

/// State and count are all that a later step depends on.
TEST(OptimizerRules, GoOnWhereTheStateWasSaved) {
  for (const std::string_view name : optimizer_names()) {
    SCOPED_TRACE(name);
    const OptimizerSpec spec = OptimizerSpec::parse(name);
    Optimizer<double> first(spec, tensors);
    EXPECT_EQ(first.bytes(), 9U * static_cast<std::size_t>(spec.slots()) * sizeof(double));
    Numbers x = start();
    for (int t = 1; t <= 7; ++t) first.step(x, gradient_at(x, t), rate);
    Optimizer<double> second(spec, tensors);
    std::ranges::copy(first.state(), second.state().begin());
    second.set_steps(first.steps());
    Numbers y = x;
    for (int t = 8; t <= steps; ++t) {
      first.step(x, gradient_at(x, t), rate);
      second.step(y, gradient_at(y, t), rate);
    }
    EXPECT_EQ(x, y);
    EXPECT_EQ(second.steps(), steps);
  }
}

TEST(OptimizerRules, OnlyTheVelocityFamilyCoasts) {
  for (const std::string_view name : optimizer_names()) {
    SCOPED_TRACE(name);
    const OptimizerSpec spec = OptimizerSpec::parse(name);
    Optimizer<double> optimizer(spec, tensors);
    Numbers weights = start();
    if (spec.coasts()) {
      optimizer.coast(weights, 2, 0.1);
      continue;
    }
    EXPECT_THAT(
        message_of([&] { optimizer.coast(weights, 2, 0.1); }),
        testing::AllOf(testing::HasSubstr(std::string(name)), testing::HasSubstr("nesterov")));
  }
}

TEST(OptimizerRules, KeepTheSlotsOfTheTable) {
  const auto slots = [](std::string_view text) { return OptimizerSpec::parse(text).slots(); };
  EXPECT_EQ(slots("sgd"), 0);
  EXPECT_EQ(slots("momentum"), 1);
  EXPECT_EQ(slots("momentum:momentum=0"), 0);
  EXPECT_EQ(slots("lars"), 1);
  EXPECT_EQ(slots("lars:momentum=0"), 0);
  EXPECT_EQ(slots("adagrad"), 1);
  EXPECT_EQ(slots("rmsprop"), 1);
  EXPECT_EQ(slots("rmsprop:momentum=0.9"), 2);
  EXPECT_EQ(slots("rmsprop:momentum=0.9,centered=yes"), 3);
  EXPECT_EQ(slots("amsgrad"), 3);
  for (const char* two : {"adadelta", "adam", "adamw", "adamax", "nadam", "radam", "lamb"}) {
    EXPECT_EQ(slots(two), 2) << two;
  }
}

}  // namespace
}  // namespace unlatch::models
