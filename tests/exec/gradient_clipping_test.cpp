// Clipped gradients: every synchronous schedule against batch gradient descent written out; stages
// alone; what is refused.
#include "exec/gradient_clipping.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "exec/host_parameter_math.h"
#include "schedules/error.h"
#include "schedules/joint_updates.h"
#include "tests/exec/chain_descent.h"
#include "tests/exec/chain_problem.h"

namespace unlatch::exec {
namespace {

using testing::HasSubstr;

/// The parts that are clipped together: so many weights each.
void clip(std::vector<double>& gradient, double most, std::size_t part) {
  for (std::size_t first = 0; first < gradient.size(); first += part) {
    const auto begin = gradient.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(part);
    const double norm = std::sqrt(std::inner_product(begin, end, begin, 0.0));
    if (norm <= most) continue;
    for (auto g = begin; g != end; ++g) *g *= most / norm;
  }
}

std::vector<double> descended(const ChainProblem& problem, const Shape& shape, double most,
                              std::size_t part) {
  std::vector<double> weights = problem.weights;
  for (int batch = 0; batch < shape.batches; ++batch) {
    std::vector<double> gradient =
        mean_gradient(weights, problem, batch * shape.micro_batches, shape.micro_batches);
    clip(gradient, most, part);
    for (std::size_t j = 0; j < weights.size(); ++j) weights[j] -= problem.rate * gradient[j];
  }
  return weights;
}

/// Far enough from the target that the norms matter, close enough that some batches pass unclipped.
ChainProblem steep_problem(const TaskGraph& graph) {
  ChainProblem problem = problem_of(graph);
  for (double& y : problem.y) y *= 4;
  problem.rate = 0.3;
  return problem;
}

constexpr double most = 0.4;

TEST(GradientClipping, OfTheModelIsThatOfOneLargeBatchInEverySynchronousSchedule) {
  int schedules = 0, clipped = 0;
  for (const Method& method : methods()) {
    if (!method.synchronous) continue;
    SCOPED_TRACE(method.name);
    const ScheduleSpec spec = ScheduleSpec::parse(method.name);
    const Shape shape = shape_for(spec, method.name == "ssgd" ? 2 : 1);
    ASSERT_GT(shape.micro_batches, 0);
    const TaskGraph graph = with_joint_updates(spec.make(shape)).build();
    ChainProblem problem = steep_problem(graph);
    const auto free = descended(problem, graph.shape(), 1e9, problem.weights.size());
    problem.clip = models::GradientClip{.most = most};
    const auto expected = descended(problem, graph.shape(), most, problem.weights.size());
    const auto found = run_chain(graph, problem).final;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t j = 0; j < found.size(); ++j) EXPECT_NEAR(found[j], expected[j], 1e-13) << j;
    clipped += std::abs(free[0] - expected[0]) > 1e-3;
    ++schedules;
  }
  EXPECT_GE(schedules, 16);
  EXPECT_EQ(clipped, schedules) << "the norm must matter";
}

/// Gradients of the chunks of all ranks, each clipped with the squares of all.
std::vector<std::vector<double>> clipped(std::vector<std::vector<double>> gradients, double& norm) {
  HostParameterMath<double> math;
  BufferPool pool;
  std::vector<Tensor> tensors, squares;
  for (const auto& gradient : gradients) {
    tensors.push_back(pool.take(gradient.size() * sizeof(double)));
    std::ranges::copy(gradient, tensors.back().data<double>());
    squares.push_back(math.square_sum(tensors.back()));
  }
  norm = std::sqrt(sum_of(squares));
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    math.clip(1, squares, tensors[g]);
    std::ranges::copy(tensors[g].as<double>(), gradients[g].begin());
  }
  return gradients;
}

TEST(O44, TheNumbersOfTheCase) {
  double norm = 0;
  const auto near = [](double value) { return testing::DoubleNear(value, 1e-15); };
  const auto two = clipped({{3}, {4}}, norm);
  EXPECT_EQ(norm, 5);
  EXPECT_THAT(two[0], testing::ElementsAre(near(0.6)));
  EXPECT_THAT(two[1], testing::ElementsAre(near(0.8)));
  const auto four = clipped({{3}, {4}, {0}, {12}}, norm);
  EXPECT_EQ(norm, 13);
  EXPECT_THAT(four[0], testing::ElementsAre(near(3.0 / 13)));
  EXPECT_THAT(four[1], testing::ElementsAre(near(4.0 / 13)));
  EXPECT_THAT(four[2], testing::ElementsAre(0));
  EXPECT_THAT(four[3], testing::ElementsAre(near(12.0 / 13)));
}

// y = 4, z = 12 and the target 11: gradients 3 and 4.
TEST(O44, OneParameterAStage) {
  const TaskGraph graph =
      with_joint_updates(ScheduleSpec::parse("gpipe").make({.stages = 2, .batches = 1})).build();
  ChainProblem problem = problem_of(graph);
  problem.weights = {4, 3};
  problem.activation = Activation::identity;
  problem.x.assign(problem.x.size(), 1);
  problem.y.assign(problem.y.size(), 11);
  problem.rate = 1;
  problem.clip = models::GradientClip{.most = 1};
  EXPECT_THAT(run_chain(graph, problem).final,
              testing::ElementsAre(testing::DoubleNear(4 - 0.6, 1e-15),
                                   testing::DoubleNear(3 - 0.8, 1e-15)));
}

TEST(GradientClipping, OfAStageLooksAtItAlone) {
  const ScheduleSpec spec = ScheduleSpec::parse("1f1b");
  const TaskGraph graph = spec.make({.stages = 4, .micro_batches = 2, .batches = 5}).build();
  ChainProblem problem = steep_problem(graph);
  problem.weights.insert(problem.weights.end(), {0.8, -0.7, 1.1, 0.6});
  problem.clip = models::GradientClip{.most = 0.1, .of_stage = true};
  const auto expected = descended(problem, graph.shape(), 0.1, 2);
  const auto found = run_chain(graph, problem).final;
  for (std::size_t j = 0; j < found.size(); ++j) EXPECT_NEAR(found[j], expected[j], 1e-13) << j;
}

/// One weight a stage: no update moves it by more than the rate times the norm.
TEST(GradientClipping, OfAStageBoundsEveryStepOfAnySchedule) {
  for (const char* name : {"ddg", "fr", "fdg", "dsp", "adl", "pipedream", "dgl", "dni", "dfa"}) {
    SCOPED_TRACE(name);
    const TaskGraph graph = ScheduleSpec::parse(name).make({.stages = 3, .batches = 12}).build();
    ChainProblem problem = steep_problem(graph);
    const auto largest_step = [&] {
      double largest = 0;
      for (const auto& path : run_chain(graph, problem).weights_by_update) {
        for (std::size_t n = 1; n < path.size(); ++n) {
          largest = std::max(largest, std::abs(path[n] - path[n - 1]));
        }
      }
      return largest;
    };
    EXPECT_GT(largest_step(), 0.3 * 0.05);
    problem.clip = models::GradientClip{.most = 0.05, .of_stage = true};
    EXPECT_NEAR(largest_step(), 0.3 * 0.05, 1e-15);
  }
}

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GradientClipping, WhatCannotWaitForANormIsRefused) {
  const auto joint = [](const char* name, Shape shape) {
    return message_of([&] { with_joint_updates(ScheduleSpec::parse(name).make(shape)).build(); });
  };
  EXPECT_THAT(joint("fdg", {.stages = 2, .batches = 4}), HasSubstr("in the middle of batch"));
  EXPECT_THAT(joint("local-sgd", {.stages = 2, .batches = 4, .replicas = 2}),
              HasSubstr("do not sum up"));
  const auto run = [](const char* name, Shape shape, bool of_stage) {
    return message_of([&] {
      const TaskGraph graph = ScheduleSpec::parse(name).make(shape).build();
      ChainProblem problem = problem_of(graph);
      problem.clip = models::GradientClip{.most = 1, .of_stage = of_stage};
      run_chain(graph, problem);
    });
  };
  EXPECT_THAT(run("bp", {.stages = 2, .batches = 2}, false), HasSubstr("over the whole model"));
  EXPECT_THAT(run("ssd-sgd", {.stages = 2, .batches = 4, .replicas = 2}, true),
              HasSubstr("cannot be clipped"));
}

TEST(GradientClipSpec, IsANumberAndAScope) {
  EXPECT_EQ(models::GradientClip::parse("1.5").most, 1.5);
  EXPECT_FALSE(models::GradientClip::parse("1.5").of_stage);
  EXPECT_FALSE(models::GradientClip::parse("1.5,scope=model").of_stage);
  EXPECT_TRUE(models::GradientClip::parse("2,scope=stage").of_stage);
  for (const char* wrong :
       {"", "0", "-1", "inf", "x", "1,scope=rank", "1,scop=stage", "scope=stage"}) {
    EXPECT_NE(message_of([&] { models::GradientClip::parse(wrong); }), "no error") << wrong;
  }
}

TEST(ClipFactor, LeavesSmallNormsAndPassesOnWhatIsNoNumber) {
  EXPECT_EQ(models::clip_factor(2, 4), 1);
  EXPECT_EQ(models::clip_factor(2, 16), 0.5);
  EXPECT_TRUE(std::isnan(models::clip_factor(2, INFINITY)));
  EXPECT_TRUE(std::isnan(models::clip_factor(2, NAN)));
}

}  // namespace
}  // namespace unlatch::exec
