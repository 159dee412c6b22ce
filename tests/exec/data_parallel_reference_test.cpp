// Data-parallel methods against a straight line: their update rules as loops over batches and
// replicas, without graphs or threads. Every weight after every update of the server (or of the
// first replica) and every loss must come out of the threaded executor bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "exec/numerics.h"
#include "schedules/registry.h"
#include "tests/exec/reference_chain.h"

namespace unlatch::exec {
namespace {

using Weights = ChainWeights;

struct Replicated {
  ChainProblem problem;
  Weights initial;
  int replicas = 2;
  int batches = 1;
  double momentum = 0;
};

struct Line {
  std::vector<Weights> history;  ///< after 0, 1, .. updates
  std::vector<double> losses;
};

/// Calls f for each weight of several equally cut sets.
template <class F, class... Sets>
void for_each_weight(const F& f, Weights& first, Sets&... others) {
  for (std::size_t k = 0; k < first.size(); ++k) {
    for (std::size_t j = 0; j < first[k].size(); ++j) f(first[k][j], others[k][j]...);
  }
}

Weights zeros(Weights like) {
  for_each_weight([](double& w) { w = 0; }, like);
  return like;
}

/// One set of weights with heavy-ball momentum.
struct Server {
  Weights weights, velocity;
  double rate, momentum;

  explicit Server(const Replicated& run)
      : weights(run.initial),
        velocity(zeros(run.initial)),
        rate(run.problem.rate),
        momentum(run.momentum) {}
  void step(Weights gradient) {
    for_each_weight(
        [&](double& w, double& v, double g) {
          v = momentum * v + g;
          w -= rate * v;
        },
        weights, velocity, gradient);
  }
};

ChainGradient gradient_of(const Replicated& run, const Weights& weights, int batch, int replica,
                          double scale) {
  const std::size_t i = static_cast<std::size_t>(batch * run.replicas + replica);
  return differentiate(weights, weights, run.problem.x[i], run.problem.y[i], scale, 1);
}

enum class Compensated { no, constant, adaptive };

/// Replicas take turns; each computes at the version it was sent.
Line served(const Replicated& run, int bound, Compensated compensated, double lambda,
            double decay) {
  Server server(run);
  Line line{{run.initial}, {}};
  Weights mean_square = zeros(run.initial);
  std::vector<int> sent(run.replicas, 0);
  for (int n = 0; n < run.batches; ++n) {
    for (int r = 0; r < run.replicas; ++r) {
      ChainGradient g = gradient_of(run, line.history[sent[r]], n, r, 1);
      line.losses.push_back(g.loss);
      Weights at = line.history[sent[r]];
      for_each_weight(
          [&](double& grad, double& w, double& s, double& ms) {
            if (compensated == Compensated::no) return;
            if (compensated == Compensated::constant) {
              grad = grad + lambda * grad * grad * (w - s);
              return;
            }
            ms = decay * ms + (1 - decay) * grad * grad + 1e-7;
            grad = grad + lambda / std::sqrt(ms) * grad * grad * (w - s);
          },
          g.of_weights, server.weights, at, mean_square);
      server.step(g.of_weights);
      line.history.push_back(server.weights);
    }
    // What a replica is sent includes the updates that it has to wait for. All of them are behind
    // us: those of this batch, or of one before.
    for (int r = 0; r < run.replicas; ++r) {
      sent[r] = n * run.replicas + r + 1;
      if (n >= bound) sent[r] = std::max(sent[r], (n - bound + 1) * run.replicas);
    }
  }
  return line;
}

struct Glu {
  double own, server;
  bool decays_pre;
};

Line delayed(const Replicated& run, int delay, int warm_up, const Glu& glu, double local_rate,
             double decay) {
  Server server(run);
  Line line{{run.initial}, {}};
  std::vector<Weights> local(run.replicas, run.initial), earlier = local;
  bool pulls = false;
  Weights pulled;
  int steps = 0;
  for (int t = 0; t < run.batches; ++t) {
    std::vector<Weights> gradients;
    for (int r = 0; r < run.replicas; ++r) {
      ChainGradient g = gradient_of(run, local[r], t, r, 1.0 / run.replicas);
      line.losses.push_back(g.loss);
      gradients.push_back(g.of_weights);
    }
    Weights sum = gradients[0];
    for (int r = 1; r < run.replicas; ++r) {
      for_each_weight([](double& s, double g) { s += g; }, sum, gradients[r]);
    }
    server.step(sum);
    line.history.push_back(server.weights);
    if (t < warm_up) {
      for (Weights& w : local) w = server.weights;
      continue;
    }
    const double rate = run.problem.rate * local_rate;
    const double kept = glu.decays_pre ? 1 - rate * decay : 1;
    for (int r = 0; r < run.replicas; ++r) {
      if (pulls) local[r] = pulled;
      if (steps % delay == 0) earlier[r] = local[r];
      for_each_weight(
          [&](double& w, double g, double pre) {
            w -= rate * (glu.own * g + glu.server * (kept * pre - w) + decay * w);
          },
          local[r], gradients[r], earlier[r]);
    }
    ++steps;
    pulls = t % delay == delay - 1;
    pulled = server.weights;
  }
  return line;
}

/// Replicas step alone; their weights are averaged after every `steps` updates.
Line local(const Replicated& run, int steps) {
  std::vector<Server> replicas(run.replicas, Server(run));
  Line line{{run.initial}, {}};
  for (int n = 0; n < run.batches; ++n) {
    for (int r = 0; r < run.replicas; ++r) {
      const ChainGradient g = gradient_of(run, replicas[r].weights, n, r, 1);
      line.losses.push_back(g.loss);
      replicas[r].step(g.of_weights);
    }
    line.history.push_back(replicas[0].weights);
    if ((n + 1) % steps != 0) continue;
    Weights mean = replicas[0].weights;
    for (int r = 1; r < run.replicas; ++r) {
      for_each_weight([](double& m, double w) { m += w; }, mean, replicas[r].weights);
    }
    for_each_weight([&](double& m) { m *= 1.0 / run.replicas; }, mean);
    for (Server& replica : replicas) replica.weights = mean;
  }
  return line;
}

struct TopK {
  double ratio, momentum, clip;
  int warm_up = 0, step = 1;
};

/// One stage's gathered entries of one replica: the largest leave.
void send_largest(std::vector<double>& u, std::vector<double>& v, std::vector<double>& g,
                  double ratio, const TopK& spec) {
  double square = 0;
  for (const double x : g) square += x * x;
  if (spec.clip > 0 && std::sqrt(square) > spec.clip) {
    for (double& x : g) x *= spec.clip / std::sqrt(square);
  }
  std::vector<std::size_t> order(g.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const std::size_t j : order) {
    u[j] = spec.momentum * u[j] + g[j];
    v[j] += u[j];
  }
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
  const auto sent = static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(g.size())));
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::size_t j = order[n];
    g[j] = n < sent ? v[j] : 0;
    if (n < sent) u[j] = v[j] = 0;
  }
}

Line compressed(const Replicated& run, const TopK& spec) {
  Server server(run);
  Line line{{run.initial}, {}};
  std::vector<Weights> u(run.replicas, zeros(run.initial)), v = u;
  for (int n = 0; n < run.batches; ++n) {
    const int step = n / spec.step;
    const double ratio = step < spec.warm_up
                             ? std::pow(spec.ratio, (step + 1.0) / (spec.warm_up + 1.0))
                             : spec.ratio;
    Weights sum;
    for (int r = 0; r < run.replicas; ++r) {
      ChainGradient g = gradient_of(run, server.weights, n, r, 1.0 / run.replicas);
      line.losses.push_back(g.loss);
      for (std::size_t k = 0; k < g.of_weights.size(); ++k) {
        send_largest(u[r][k], v[r][k], g.of_weights[k], ratio, spec);
      }
      if (r == 0) {
        sum = g.of_weights;
      } else {
        for_each_weight([](double& s, double x) { s += x; }, sum, g.of_weights);
      }
    }
    server.step(sum);
    line.history.push_back(server.weights);
  }
  return line;
}

void expect_the_line(const std::string& schedule,
                     const std::function<Line(const Replicated&)>& rule, double momentum,
                     unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-1.5, 1.5);
  const int stages = 1 + static_cast<int>(random() % 3);
  Replicated run{.problem = {.rate = 0.3}, .initial = {}, .momentum = momentum};
  run.replicas = 2 + static_cast<int>(random() % 3);
  run.batches = 1 + static_cast<int>(random() % 12);
  if (momentum > 0) {
    run.problem.optimizer =
        models::OptimizerSpec::parse(fmt::format("momentum:momentum={}", momentum));
  }
  const int weights = stages + static_cast<int>(random() % 7);
  for (int j = 0; j < weights; ++j) run.problem.weights.push_back(value(random));
  for (int i = 0; i < run.replicas * run.batches; ++i) {
    run.problem.x.push_back(value(random));
    run.problem.y.push_back(value(random));
  }
  run.initial = cut(run.problem.weights, stages);
  SCOPED_TRACE(fmt::format("{} K={} R={} batches={} momentum={} seed={}", schedule, stages,
                           run.replicas, run.batches, momentum, seed));
  const Shape shape{.stages = stages, .batches = run.batches, .replicas = run.replicas};
  const ChainResult result = run_chain(ScheduleSpec::parse(schedule).make(shape).build(),
                                       run.problem, {.workers = 1 + static_cast<int>(seed % 3)});
  const Line line = rule(run);
  ASSERT_EQ(result.losses, line.losses);
  int w = 0;
  for (int k = 0; k < stages; ++k) {
    for (std::size_t j = 0; j < run.initial[k].size(); ++j, ++w) {
      ASSERT_EQ(result.weights_by_update[w].size(), line.history.size());
      for (std::size_t u = 0; u < line.history.size(); ++u) {
        ASSERT_EQ(result.weights_by_update[w][u], line.history[u][k][j])
            << "weight " << w << " after " << u << " updates";
      }
    }
  }
}

void expect_the_line_often(const std::string& schedule,
                           const std::function<Line(const Replicated&)>& rule) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    for (const double momentum : {0.0, 0.9}) {
      expect_the_line(schedule, rule, momentum, seed);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

constexpr int any = 1 << 30;

TEST(DataParallel, AServerAppliesTheGradientsInTurn) {
  expect_the_line_often(
      "asgd", [](const Replicated& run) { return served(run, any, Compensated::no, 0, 0); });
  // The pipeline inside a replica changes no bit: one micro-batch, the same order of updates.
  expect_the_line_often("asgd:inside=1f1b", [](const Replicated& run) {
    return served(run, any, Compensated::no, 0, 0);
  });
}

TEST(DataParallel, StaleGradientsAreCompensated) {
  expect_the_line_often("asgd:compensation=constant", [](const Replicated& run) {
    return served(run, any, Compensated::constant, 0.04, 0);
  });
  expect_the_line_often("asgd:compensation=constant,lambda=0.7", [](const Replicated& run) {
    return served(run, any, Compensated::constant, 0.7, 0);
  });
  expect_the_line_often("asgd:compensation=adaptive", [](const Replicated& run) {
    return served(run, any, Compensated::adaptive, 2, 0.95);
  });
  expect_the_line_often("asgd:compensation=adaptive,lambda=1,decay=0", [](const Replicated& run) {
    return served(run, any, Compensated::adaptive, 1, 0);
  });
}

TEST(DataParallel, ABoundKeepsReplicasTogether) {
  for (const int bound : {0, 1, 2, 5}) {
    expect_the_line_often(fmt::format("ssp:bound={}", bound), [bound](const Replicated& run) {
      return served(run, bound, Compensated::no, 0, 0);
    });
  }
}

TEST(DataParallel, DelayedReplicasStepAloneAndPullTheServersWeights) {
  for (const int delay : {1, 2, 3, 5}) {
    for (const int warm_up : {0, 1, 2, 4, 500}) {
      expect_the_line_often(
          fmt::format("ssd-sgd:delay={},warmup={}", delay, warm_up), [=](const Replicated& run) {
            return delayed(run, delay, warm_up, {2, 0.125, true}, run.replicas, 0);
          });
      expect_the_line_often(
          fmt::format("ssd-sgd:delay={},warmup={},glu=b,local_rate=1.5,local_decay=0.01", delay,
                      warm_up),
          [=](const Replicated& run) {
            return delayed(run, delay, warm_up, {1, 0.5, false}, 1.5, 0.01);
          });
    }
  }
  expect_the_line_often("ssd-sgd:delay=2,warmup=1,local_decay=0.1", [](const Replicated& run) {
    return delayed(run, 2, 1, {2, 0.125, true}, run.replicas, 0.1);
  });
}

TEST(DataParallel, LocalSgdAveragesEveryFewUpdates) {
  for (const int steps : {1, 2, 4}) {
    expect_the_line_often(fmt::format("local-sgd:steps={}", steps),
                          [steps](const Replicated& run) { return local(run, steps); });
  }
}

TEST(DataParallel, OnlyTheLargestEntriesOfGradientsAreSent) {
  for (const double ratio : {0.2, 0.5, 1.0 / 3}) {
    expect_the_line_often(fmt::format("ssgd:compression=topk,ratio={}", ratio),
                          [ratio](const Replicated& run) {
                            return compressed(run, {.ratio = ratio, .momentum = 0.9, .clip = 0});
                          });
  }
  expect_the_line_often(
      "ssgd:compression=topk,ratio=0.1,momentum=0.5,clip=0.05,warmup=3,step=2",
      [](const Replicated& run) {
        return compressed(run,
                          {.ratio = 0.1, .momentum = 0.5, .clip = 0.05, .warm_up = 3, .step = 2});
      });
}

}  // namespace
}  // namespace unlatch::exec
