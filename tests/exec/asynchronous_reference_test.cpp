// Asynchronous schedules against a straight line: the update rule of each method as a loop over
// batches, without stages in flight, queues or threads. Every weight after every update and every
// loss must come out of the threaded executor bit for bit, on random chains.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "exec/numerics.h"
#include "schedules/registry.h"
#include "tests/exec/reference_chain.h"

namespace unlatch::exec {
namespace {

/// What a method decides about micro-batch n on stage k of K.
struct Rule {
  std::string schedule;
  std::function<int(int stages, int k, int n)> forward_version;
  std::function<int(int stages, int k, int n)> backward_version;
  int group = 1;          ///< micro-batches an update
  int micro_batches = 1;  ///< of a batch, where the schedule knows them
  double loss_scale = 1;
  double shrink = 1;      ///< on gradients arriving at stages below the last
  bool predicts = false;  ///< F moves its weights by the momentum of the updates ahead of it
  int fewest_stages = 1, most_stages = 5;
  int rescale = 0;     ///< PipeMare T1: updates with a smaller rate
  double correct = 0;  ///< PipeMare T2: decay of the drift
  int in_step = 0;     ///< batches without delay at the start
};

using Weights = ChainWeights;

struct Line {
  std::vector<Weights> history;     ///< after 0, 1, .. updates
  std::vector<Weights> velocities;  ///< likewise
  std::vector<double> losses;
};

/// The weights that the micro-batch sees: every stage from the version that the rule says.
Weights mixed(const Line& line, const std::function<int(int, int, int)>& version, int n) {
  const int stages = static_cast<int>(line.history.front().size());
  Weights result;
  for (int k = 0; k < stages; ++k) result.push_back(line.history[version(stages, k, n)][k]);
  return result;
}

/// w - lr (b - b^(s+1)) / (1 - b) v, v and s those of the version and the updates ahead of it.
Weights predicted(const Line& line, const Rule& rule, int n, double momentum, double rate) {
  Weights result = mixed(line, rule.forward_version, n);
  const int stages = static_cast<int>(result.size());
  for (int k = 0; k < stages; ++k) {
    const int version = rule.forward_version(stages, k, n);
    const double factor =
        rate * ((momentum - std::pow(momentum, n - version + 1)) / (1 - momentum));
    for (std::size_t j = 0; j < result[k].size(); ++j) {
      result[k][j] -= factor * line.velocities[version][k][j];
    }
  }
  return result;
}

/// PipeMare's running mean of a stage's steps, and the rate's factor.
struct Drift {
  int delay = 0;
  std::vector<double> mean;

  void note(const std::vector<double>& before, const std::vector<double>& after, double decay) {
    const double kept = std::pow(decay, 1.0 / std::max(delay, 1));
    for (std::size_t j = 0; j < mean.size(); ++j) {
      mean[j] = kept * mean[j] + (1 - kept) * (after[j] - before[j]);
    }
  }
  void move_back(std::vector<double>& weights) const {
    for (std::size_t j = 0; delay > 0 && j < mean.size(); ++j) weights[j] -= delay * mean[j];
  }
  double rate_factor(int update, int updates) const {
    const bool smaller = delay >= 2 && update < updates;
    return smaller ? std::pow(delay, static_cast<double>(update) / updates - 1) : 1;
  }
};

std::vector<Drift> drifts(const Rule& rule, const Weights& initial, int batches) {
  std::vector<Drift> all;
  const int stages = static_cast<int>(initial.size());
  for (int k = 0; k < stages; ++k) {
    const int longest = std::max(0, batches - rule.in_step - 1);
    all.push_back({std::min(stages - 1 - k, longest), std::vector<double>(initial[k].size())});
  }
  return all;
}

Line straight_line(const Rule& rule, const ChainProblem& problem, const Weights& initial,
                   double momentum) {
  Weights velocity = initial;
  for (auto& stage : velocity) std::fill(stage.begin(), stage.end(), 0.0);
  const Weights zero = velocity;
  Weights sum = zero;
  Line line{{initial}, {zero}, {}};
  std::vector<Drift> drift = drifts(rule, initial, static_cast<int>(problem.x.size()));
  for (int n = 0; n < static_cast<int>(problem.x.size()); ++n) {
    const Weights forward = rule.predicts ? predicted(line, rule, n, momentum, problem.rate)
                                          : mixed(line, rule.forward_version, n);
    Weights backward = mixed(line, rule.backward_version, n);
    for (std::size_t k = 0; rule.correct > 0 && k < initial.size(); ++k) {
      drift[k].move_back(backward[k]);
    }
    const ChainGradient g =
        differentiate(forward, backward, problem.x[n], problem.y[n], rule.loss_scale, rule.shrink);
    line.losses.push_back(g.loss);
    const bool applies = (n + 1) % rule.group == 0;
    if (applies) line.history.push_back(line.history.back());
    for (std::size_t k = 0; k < initial.size(); ++k) {
      for (std::size_t j = 0; j < initial[k].size(); ++j) {
        sum[k][j] += g.of_weights[k][j];
        if (!applies) continue;
        velocity[k][j] = momentum * velocity[k][j] + sum[k][j];
        const double rate =
            rule.rescale > 0 ? problem.rate * drift[k].rate_factor(n, rule.rescale) : problem.rate;
        line.history.back()[k][j] -= rate * velocity[k][j];
      }
      if (rule.correct > 0) {
        drift[k].note(line.history[line.history.size() - 2][k], line.history.back()[k],
                      rule.correct);
      }
    }
    if (!applies) continue;
    sum = zero;
    line.velocities.push_back(velocity);
  }
  return line;
}

int since_start(int version) { return std::max(0, version); }

std::vector<Rule> rules() {
  std::vector<Rule> all;
  const auto newest = [](int, int, int n) { return n; };
  const auto stashed = [](int stages, int k, int n) { return since_start(n - (stages - 1 - k)); };
  const auto synced = [](int stages, int, int n) { return since_start(n - (stages - 1)); };
  all.push_back({"pipedream", stashed, stashed});
  all.push_back({"pipedream:weights=vertical_sync", synced, synced});
  all.push_back({"pipedream:weights=latest", stashed, newest});
  all.push_back({.schedule = "pipedream:weights=predicted",
                 .forward_version = stashed,
                 .backward_version = newest,
                 .predicts = true});
  for (const int in_step : {0, 1, 4}) {
    const auto delayed = [in_step](int stages, int k, int n) {
      return n < in_step ? n : std::max(in_step, n - (stages - 1 - k));
    };
    Rule rule{.schedule = fmt::format("pipedream:weights=latest,warmup={}", in_step),
              .forward_version = delayed,
              .backward_version = newest,
              .in_step = in_step};
    all.push_back(rule);
    rule.schedule += ",rescale=6";
    rule.rescale = 6;
    all.push_back(rule);
    rule.schedule += ",correct=0.135";
    rule.correct = 0.135;
    all.push_back(rule);
  }
  for (const int in_step : {1, 3}) {
    const auto delayed = [in_step](int stages, int k, int n) {
      return n < in_step ? n : std::max(in_step, n - (stages - 1 - k));
    };
    all.push_back({.schedule = fmt::format("pipedream:warmup={}", in_step),
                   .forward_version = delayed,
                   .backward_version = delayed});
  }
  for (const int m : {1, 2, 3, 5, 6}) {
    const auto one_old = [m](int, int, int n) { return since_start(n / m - 1); };
    all.push_back({.schedule = "pipedream-2bw",
                   .forward_version = one_old,
                   .backward_version = one_old,
                   .group = m,
                   .micro_batches = m,
                   .loss_scale = 1.0 / m,
                   .most_stages = std::min(m, 5)});
  }
  for (const int a : {1, 2, 3, 4}) {
    for (const bool bf : {false, true}) {
      for (const bool exact : {true, false}) {
        for (const bool mean : {true, false}) {
          const auto delayed = [a, bf](int stages, int k, int n) {
            return since_start(n - since_start(2 * (stages - 1 - k) - (bf ? 1 : 0))) / a;
          };
          const auto current = [a](int, int, int n) { return n / a; };
          Rule rule{.schedule = fmt::format(
                        "adl:form={},order={},weights={},shrink=0.75,accumulate={},reduce={}",
                        mean ? "lockstep" : "queue", bf ? "bf" : "fb", exact ? "exact" : "in_place",
                        a, mean ? "mean" : "sum"),
                    .forward_version = delayed,
                    .backward_version = current,
                    .group = a,
                    .loss_scale = mean ? 1.0 / a : 1,
                    .shrink = 0.75};
          if (exact) rule.backward_version = delayed;
          all.push_back(rule);
        }
      }
    }
  }
  return all;
}

void expect_the_line(const Rule& rule, int stages, int batches, double momentum, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-1.5, 1.5);
  const Shape shape{.stages = stages, .micro_batches = rule.micro_batches, .batches = batches};
  ChainProblem problem{.rate = 0.3};
  if (momentum > 0) {
    problem.optimizer = models::OptimizerSpec::parse(fmt::format("momentum:momentum={}", momentum));
  }
  const int weights = stages + static_cast<int>(random() % 4);
  for (int j = 0; j < weights; ++j) problem.weights.push_back(value(random));
  for (int i = 0; i < shape.all_micro_batches(); ++i) {
    problem.x.push_back(value(random));
    problem.y.push_back(value(random));
  }
  const ChainResult result = run_chain(ScheduleSpec::parse(rule.schedule).make(shape).build(),
                                       problem, {.workers = 1 + static_cast<int>(seed % 3)});
  const Line line = straight_line(rule, problem, cut(problem.weights, stages), momentum);
  ASSERT_EQ(result.losses, line.losses);
  int j = 0;
  for (int k = 0; k < stages; ++k) {
    for (std::size_t in_stage = 0; in_stage < line.history.front()[k].size(); ++in_stage, ++j) {
      ASSERT_EQ(result.weights_by_update[j].size(), line.history.size());
      for (std::size_t u = 0; u < line.history.size(); ++u) {
        ASSERT_EQ(result.weights_by_update[j][u], line.history[u][k][in_stage])
            << "weight " << j << " after " << u << " updates";
      }
    }
  }
}

TEST(Asynchronous, SchedulesEqualTheStraightLineOfTheirUpdateRuleBitForBit) {
  unsigned seed = 0;
  for (const Rule& rule : rules()) {
    for (int stages = rule.fewest_stages; stages <= rule.most_stages; ++stages) {
      for (const int batches : {1, 2, 3, 5, 8, 13}) {
        for (const double momentum : {0.0, 0.9}) {
          SCOPED_TRACE(fmt::format("{} K={} batches={} momentum={} seed={}", rule.schedule, stages,
                                   batches, momentum, ++seed));
          expect_the_line(rule, stages, batches, momentum, seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Asynchronous, AdlGivesItsGoldenRow) {
  ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  fill_with_golden_data(problem, 12);
  const ChainResult result =
      run_chain(ScheduleSpec::parse("adl").make({.stages = 3, .batches = 12}).build(), problem);
  const std::vector<std::vector<double>> expected{
      {0.877600417599, 0.865441372895, 0.855592741784, 0.808645340243},
      {-0.763121460051, -0.744585015910, -0.726594570589, -0.650668342259},
      {1.067992396454, 1.051859311192, 1.036274773201, 0.975333500457}};
  const int updates[] = {1, 2, 3, 6};
  for (int k = 0; k < 3; ++k) {
    ASSERT_EQ(result.weights_by_update[k].size(), 7U);
    for (int j = 0; j < 4; ++j) {
      EXPECT_NEAR(result.weights_by_update[k][updates[j]], expected[k][j], 1e-11)
          << "weight " << k << " after " << updates[j] << " updates";
    }
  }
}

TEST(Asynchronous, RunsThatStopEarlyDoTheFirstUpdatesOfTheWholeRun) {
  for (const std::string text :
       {"pipedream", "pipedream:weights=vertical_sync", "pipedream:weights=latest",
        "pipedream:weights=predicted", "pipedream-2bw", "adl", "adl:order=bf,weights=in_place"}) {
    const ScheduleSpec spec = ScheduleSpec::parse(text);
    Shape shape{.stages = 4, .micro_batches = 4, .batches = 9};
    ChainProblem problem{.weights = {0.9, -0.8, 1.1, 0.7}};
    fill_with_golden_data(problem, spec.effective(shape).all_micro_batches());
    const ChainResult whole = run_chain(spec.make(shape).build(), problem);
    shape.drain = false;
    const ChainResult early = run_chain(spec.make(shape).build(), problem);
    int missing = 0;
    for (std::size_t j = 0; j < whole.weights_by_update.size(); ++j) {
      const auto& some = early.weights_by_update[j];
      const auto& all = whole.weights_by_update[j];
      ASSERT_LE(some.size(), all.size());
      missing += static_cast<int>(all.size() - some.size());
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << text << " weight " << j;
    }
    EXPECT_GT(missing, 0) << text << ": stopping early must leave something out";
  }
}

}  // namespace
}  // namespace unlatch::exec
