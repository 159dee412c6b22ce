// Copies of the model on the scalar chain: they train to what one copy with the same micro-batches
// does, and local SGD to its own straight-line reference.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "exec/numerics.h"
#include "schedules/registry.h"

namespace unlatch::exec {
namespace {

ChainResult run(const std::string& specification, const Shape& shape,
                const std::vector<double>& weights, const models::OptimizerSpec& optimizer = {}) {
  const TaskGraph graph = ScheduleSpec::parse(specification).make(shape).build();
  ChainProblem problem{.weights = weights, .optimizer = optimizer};
  fill_with_golden_data(problem, graph.shape().all_micro_batches());
  return run_chain(graph, problem, {.workers = 2});
}

const std::vector<double> four{0.9, -0.8, 1.1, 0.7};

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], b[j], 1e-12);
}

TEST(Copies, TrainAsOneCopyDoes) {
  const Shape eight{.stages = 4, .micro_batches = 8, .batches = 5};
  const auto reference = run("gpipe", eight, four);
  expect_near(run("chimera", eight, four).final, reference.final);
  expect_near(run("dualpipe", eight, four).final, reference.final);
  EXPECT_EQ(run("chimera", eight, four).losses.size(), 40U);
}

TEST(Copies, ReplicasTrainAsOneWithAllMicroBatches) {
  const models::OptimizerSpec momentum = models::OptimizerSpec::parse("momentum:momentum=0.9");
  for (const int replicas : {2, 3}) {
    const Shape whole{.stages = 2, .micro_batches = 2 * replicas, .batches = 5};
    const auto reference = run("gpipe", whole, four, momentum);
    Shape shared{.stages = 2, .micro_batches = 2, .batches = 5, .replicas = replicas};
    expect_near(run("1f1b", shared, four, momentum).final, reference.final);
    shared.micro_batches = 1;
    const Shape pieces{.stages = 2, .micro_batches = replicas, .batches = 5};
    expect_near(run("ssgd", shared, four, momentum).final,
                run("gpipe", pieces, four, momentum).final);
  }
  expect_near(
      run("chimera", {.stages = 4, .micro_batches = 4, .batches = 3, .replicas = 2}, four).final,
      run("gpipe", {.stages = 4, .micro_batches = 8, .batches = 3}, four).final);
}

/// One weight, one sample: act = tanh, loss (a - y)^2 / 2.
double gradient(double w, double x, double y) {
  const double a = std::tanh(w * x);
  return (a - y) * (1 - a * a) * x;
}

// modern.md 5.7: H local steps, then the mean of the workers' weights; and a last mean, so that a
// run leaves one model.
TEST(Copies, LocalSgdIsItsUpdateRuleBitForBit) {
  constexpr int replicas = 3, batches = 8, steps = 3;
  ChainProblem data;
  fill_with_golden_data(data, replicas * batches);
  std::vector<double> w(replicas, 0.9);
  for (int t = 0; t < batches; ++t) {
    for (int i = 0; i < replicas; ++i) {
      const int n = t * replicas + i;
      w[i] -= 0.1 * gradient(w[i], data.x[n], data.y[n]);
    }
    if (t % steps == steps - 1 || t == batches - 1) {
      const double mean = std::accumulate(w.begin() + 1, w.end(), w[0]) * (1.0 / replicas);
      w.assign(replicas, mean);
    }
  }
  const auto result =
      run("local-sgd:steps=3", {.stages = 1, .batches = batches, .replicas = replicas}, {0.9});
  EXPECT_EQ(result.final, std::vector<double>{w[0]});
}

}  // namespace
}  // namespace unlatch::exec
