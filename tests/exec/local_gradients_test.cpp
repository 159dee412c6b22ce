// DGL, DNI and DFA on the scalar chain: the golden rows, and random chains against a straight line
// written from the update rules, bit for bit through the threaded executor.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "exec/numerics.h"
#include "exec/stage_runner.h"
#include "schedules/error.h"
#include "schedules/registry.h"
#include "tests/exec/reference_chain.h"

namespace unlatch::exec {
namespace {

ChainResult run(const std::string& schedule, const ChainProblem& problem, int stages,
                int workers = 0) {
  const Shape shape{.stages = stages, .batches = static_cast<int>(problem.x.size())};
  return run_chain(ScheduleSpec::parse(schedule).make(shape).build(), problem,
                   {.workers = workers});
}

ChainProblem golden() {
  ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  fill_with_golden_data(problem, 12);
  return problem;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) EXPECT_NEAR(found[j], expected[j], 1e-11) << j;
}

TEST(LocalGradients, GiveTheGoldenRowOfDgl) {
  const ChainResult result = run("dgl", golden(), 3);
  expect_near(result.final, {0.796507114688, -0.520959493800, 0.890375421824});
  ASSERT_EQ(result.heads.size(), 2U);
  expect_near(result.heads[0], {0.873341822643});
  expect_near(result.heads[1], {0.761055183880});
}

TEST(LocalGradients, GiveTheGoldenRowOfDni) {
  const ChainResult result = run("dni", golden(), 3);
  expect_near(result.final, {0.901337524450, -0.745713421406, 0.840178734489});
  ASSERT_EQ(result.heads.size(), 2U);
  expect_near(result.heads[0], {0.088540034046, -0.005596293043});
  expect_near(result.heads[1], {0.414709861680, 0.086210144535});
}

TEST(LocalGradients, OfOneStageAreThoseOfBackPropagation) {
  for (const std::string schedule : {"dgl", "dni", "dni:conditional=yes,delta=3", "dfa"}) {
    const ChainResult result = run(schedule, golden(), 1);
    EXPECT_EQ(result.weights_by_update, run("bp", golden(), 1).weights_by_update) << schedule;
    EXPECT_TRUE(result.heads.empty());
  }
}

// ---- straight lines: one batch after another, stage by stage ----------------------------------

struct Line {
  std::vector<double> weights;
  std::vector<std::vector<double>> heads;
  std::vector<double> losses;
};

double slope_of(double a) { return 1 - a * a; }

/// w_k and a_k step from their values before the update, on the loss 0.5 (a_k h_{k+1} - y)^2.
Line dgl_line(const ChainProblem& problem) {
  Line line{problem.weights, {}, {}};
  const std::size_t last = line.weights.size() - 1;
  line.heads.assign(last, {1.0});
  for (std::size_t n = 0; n < problem.x.size(); ++n) {
    double h = problem.x[n];
    const double y = problem.y[n];
    for (std::size_t k = 0; k <= last; ++k) {
      const double out = std::tanh(line.weights[k] * h);
      const double head = k < last ? line.heads[k][0] : 1;
      const double g = head * out - y;
      if (k == last) line.losses.push_back(0.5 * g * g);
      if (k < last) line.heads[k][0] -= problem.rate * (g * out);
      line.weights[k] -= problem.rate * (g * head * slope_of(out) * h);
      h = out;
    }
  }
  return line;
}

/// w_k steps on its prediction p h + q (+ r y); the prediction of batch n learns from the gradient
/// of stage k+1 once that batch is `delta` batches old, before it is asked again.
Line dni_line(const ChainProblem& problem, bool conditional, std::size_t delta, double rate) {
  Line line{problem.weights, {}, {}};
  const std::size_t last = line.weights.size() - 1;
  const std::size_t batches = problem.x.size();
  line.heads.assign(last, std::vector<double>(conditional ? 3 : 2, 0.0));
  std::vector<std::vector<double>> outputs(last + 1, std::vector<double>(batches));
  std::vector<std::vector<double>> targets = outputs;
  const auto predict = [&](std::size_t k, std::size_t n) {
    const auto& phi = line.heads[k];
    const double linear = phi[0] * outputs[k][n] + phi[1];
    return conditional ? linear + phi[2] * problem.y[n] : linear;
  };
  const auto learn = [&](std::size_t k, std::size_t n) {
    const double slope = 2 * (predict(k, n) - targets[k][n]);
    line.heads[k][0] -= rate * (slope * outputs[k][n]);
    line.heads[k][1] -= rate * slope;
    if (conditional) line.heads[k][2] -= rate * (slope * problem.y[n]);
  };
  for (std::size_t n = 0; n < batches + delta; ++n) {
    for (std::size_t k = 0; k <= last; ++k) {
      if (n < batches) {
        const double h = k == 0 ? problem.x[n] : outputs[k - 1][n];
        outputs[k][n] = std::tanh(line.weights[k] * h);
      }
      if (k < last && n >= delta) learn(k, n - delta);
      if (n >= batches) continue;
      double g = outputs[k][n] - problem.y[n];
      if (k == last) line.losses.push_back(0.5 * g * g);
      if (k < last) g = predict(k, n);
      const double inner = g * slope_of(outputs[k][n]);
      if (k > 0) targets[k - 1][n] = inner * line.weights[k];
      line.weights[k] -= problem.rate * (inner * (k == 0 ? problem.x[n] : outputs[k - 1][n]));
    }
  }
  return line;
}

/// The last stage steps down its true gradient, every other one on b_k times the output error, all
/// from the weights of the batch's forward.
Line dfa_line(const ChainProblem& problem, int stages, const std::vector<std::vector<double>>& b) {
  Line line{{}, b, {}};
  ChainWeights weights = cut(problem.weights, stages);
  for (std::size_t n = 0; n < problem.x.size(); ++n) {
    ChainWeights inputs = weights, outputs = weights;
    double h = problem.x[n];
    for (std::size_t k = 0; k < weights.size(); ++k) {
      for (std::size_t j = 0; j < weights[k].size(); ++j) {
        inputs[k][j] = h;
        h = outputs[k][j] = std::tanh(weights[k][j] * h);
      }
    }
    const double error = h - problem.y[n];
    line.losses.push_back(0.5 * error * error);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      double g = k + 1 < weights.size() ? b[k][0] * error : error;
      for (std::size_t j = weights[k].size(); j-- > 0;) {
        const double inner = g * slope_of(outputs[k][j]);
        g = inner * weights[k][j];
        weights[k][j] -= problem.rate * (inner * inputs[k][j]);
      }
    }
  }
  for (const auto& stage : weights) {
    line.weights.insert(line.weights.end(), stage.begin(), stage.end());
  }
  return line;
}

ChainProblem random_problem(int stages, int batches, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-1.5, 1.5);
  ChainProblem problem{.rate = 0.3};
  for (int k = 0; k < stages; ++k) problem.weights.push_back(value(random));
  for (int n = 0; n < batches; ++n) {
    problem.x.push_back(value(random));
    problem.y.push_back(value(random));
  }
  return problem;
}

void expect_equal(const ChainResult& result, const Line& line) {
  EXPECT_EQ(result.final, line.weights);
  EXPECT_EQ(result.heads, line.heads);
  EXPECT_EQ(result.losses, line.losses);
}

TEST(LocalGradients, FollowTheStraightLineOfDglBitForBit) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (const int batches : {1, 2, 5, 13}) {
      SCOPED_TRACE(fmt::format("K={} batches={}", stages, batches));
      const ChainProblem problem = random_problem(stages, batches, 100 * stages + batches);
      expect_equal(run("dgl", problem, stages, 1 + stages % 3), dgl_line(problem));
    }
  }
}

TEST(LocalGradients, FollowTheStraightLineOfDniBitForBit) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (const int batches : {1, 2, 5, 13}) {
      for (const int delta : {1, 2, 3, 20}) {
        for (const bool conditional : {false, true}) {
          const std::string schedule = fmt::format("dni:conditional={},delta={},synth_lr=0.2",
                                                   conditional ? "yes" : "no", delta);
          SCOPED_TRACE(fmt::format("{} K={} batches={}", schedule, stages, batches));
          const ChainProblem problem = random_problem(stages, batches, 100 * stages + batches);
          expect_equal(run(schedule, problem, stages, 1 + stages % 3),
                       dni_line(problem, conditional, delta, 0.2));
        }
      }
    }
  }
}

TEST(LocalGradients, FollowTheStraightLineOfDfaBitForBit) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (const int batches : {1, 2, 5, 13}) {
      for (const int extra : {0, 1, 3}) {
        SCOPED_TRACE(fmt::format("K={} batches={} extra={}", stages, batches, extra));
        const ChainProblem problem = random_problem(stages + extra, batches, 10 * stages + extra);
        const ChainResult result = run("dfa", problem, stages, 1 + stages % 3);
        ASSERT_EQ(std::ssize(result.heads), stages - 1);
        for (std::size_t k = 0; k < result.heads.size(); ++k) {
          EXPECT_LT(std::abs(result.heads[k].at(0)), 1);
          EXPECT_NE(result.heads[k][0], k == 0 ? 0 : result.heads[k - 1][0]);
        }
        expect_equal(result, dfa_line(problem, stages, result.heads));
      }
    }
  }
}

/// The same as dgl_line, in the order of the graph's turns: a stage may take an output twice.
TEST(LocalGradients, FollowTheTurnsOfAsynchronousDglBitForBit) {
  for (const int stages : {1, 2, 4}) {
    for (const int buffer : {1, 2, 5}) {
      SCOPED_TRACE(fmt::format("K={} buffer={}", stages, buffer));
      const std::string schedule = fmt::format("dgl:mode=async,buffer={}", buffer);
      const int batches = 20;
      const ChainProblem problem = random_problem(stages, batches, 10 * stages + buffer);
      const TaskGraph graph =
          ScheduleSpec::parse(schedule).make({.stages = stages, .batches = batches}).build();
      Line line{problem.weights, std::vector(stages - 1, std::vector{1.0}), {}};
      line.losses.resize(batches);
      std::vector<std::vector<double>> outputs(stages, std::vector<double>(batches));
      std::vector<std::vector<double>> targets = outputs;
      for (int k = 0; k < stages; ++k) {
        for (int i = 0; i < batches; ++i) {
          const int from = graph.source({k}, {i}).value;
          const double h = k == 0 ? problem.x[i] : outputs[k - 1][from];
          const double y = targets[k][i] = k == 0 ? problem.y[i] : targets[k - 1][from];
          const double out = outputs[k][i] = std::tanh(line.weights[k] * h);
          const bool last = k + 1 == stages;
          const double head = last ? 1 : line.heads[k][0];
          const double g = head * out - y;
          if (last) line.losses[i] = 0.5 * g * g;
          if (!last) line.heads[k][0] -= problem.rate * (g * out);
          line.weights[k] -= problem.rate * (g * head * slope_of(out) * h);
        }
      }
      expect_equal(run(schedule, problem, stages, 2), line);
    }
  }
}

TEST(StageRunner, RefusesLocalGradientsWithoutHeads) {
  const TaskGraph graph = ScheduleSpec::parse("dgl").make({.stages = 2}).build();
  const auto owned =
      scalar_chain_stages(std::vector<double>{1, 2}, std::vector{1, 1}, Activation::tanh, {});
  ScalarFeed feed({1}, {1});
  EXPECT_THROW(StageRunner(graph, {owned[0].get(), owned[1].get()}, feed, [](int) { return 0.1; }),
               Error);
}

}  // namespace
}  // namespace unlatch::exec
