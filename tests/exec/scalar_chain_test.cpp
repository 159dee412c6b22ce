// The first batch of decoupled.md section 13, digit by digit.
#include "exec/scalar_chain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

constexpr double digits = 1e-12;

Tensor doubles(BufferPool& pool, const std::vector<double>& values) {
  Tensor tensor = pool.take(values.size() * sizeof(double));
  std::ranges::copy(values, tensor.data<double>());
  return tensor;
}

std::vector<double> to_vector(const Tensor& tensor) {
  return {tensor.as<double>().begin(), tensor.as<double>().end()};
}

struct Chain {
  explicit Chain(const std::vector<int>& sizes)
      : stages(scalar_chain_stages(std::vector<double>{0.9, -0.8, 1.1}, sizes, Activation::tanh,
                                   {})) {}
  std::vector<std::unique_ptr<StageModule>> stages;
  Workspace workspace;
};

TEST(ScalarChain, GivesTheFirstBatchOfTheSpecification) {
  for (const auto& sizes : std::vector<std::vector<int>>{{1, 1, 1}, {2, 1}, {3}}) {
    Chain chain(sizes);
    BufferPool pool;
    ScalarFeed feed({std::sin(1.0)}, {0.5});
    std::vector<std::unique_ptr<StageModule::Tape>> tapes(sizes.size());
    Tensor flow = feed.input(MicroBatch{0});
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      flow = chain.stages[k]->forward(chain.stages[k]->initial_weights(), flow,
                                      StageModule::Pass::normal, &tapes[k], chain.workspace);
    }
    EXPECT_NEAR(*flow.data<double>(), -0.476393534332, digits);
    Tensor gradient;
    chain.stages.back()->loss(flow, feed.target(MicroBatch{0}), 1, &gradient, chain.workspace);
    EXPECT_NEAR(*gradient.data<double>(), -0.976393534332, digits);
    std::vector<double> all;
    for (std::size_t k = sizes.size(); k-- > 0;) {
      Tensor sums = chain.stages[k]->zero_gradient();
      gradient = chain.stages[k]->backward(chain.stages[k]->initial_weights(), *tapes[k], gradient,
                                           1, true, sums, chain.workspace);
      const std::vector<double> found = to_vector(sums);
      all.insert(all.begin(), found.begin(), found.end());
    }
    ASSERT_EQ(all.size(), 3U);
    EXPECT_NEAR(all[0], 0.257004695212, digits);
    EXPECT_NEAR(all[1], -0.413078411771, digits);
    EXPECT_NEAR(all[2], 0.355654054310, digits);
    EXPECT_NEAR(*gradient.data<double>(), 0.274880809757, digits);
  }
}

TEST(ScalarChain, GoesBackThroughTheWeightPassedInWithTheActivationOfTheTape) {
  ScalarChainModule stage({2.0}, Activation::identity, {});
  BufferPool pool;
  Workspace workspace;
  std::unique_ptr<StageModule::Tape> tape;
  stage.forward(stage.initial_weights(), doubles(pool, {3.0}), StageModule::Pass::normal, &tape,
                workspace);
  Tensor sums = stage.zero_gradient();
  const Tensor back = stage.backward(doubles(pool, {7.0}), *tape, doubles(pool, {10.0}), 0.5, true,
                                     sums, workspace);
  EXPECT_EQ(*back.data<double>(), 35.0);
  EXPECT_EQ(to_vector(sums), std::vector{15.0});
  EXPECT_TRUE(stage
                  .backward(stage.initial_weights(), *tape, doubles(pool, {10.0}), 1, false, sums,
                            workspace)
                  .empty());
  EXPECT_EQ(to_vector(sums), std::vector{45.0}) << "micro-batches add up";
}

/// Loss of one sample at shifted weights, by two stages of two weights.
double loss_at(std::vector<double> weights, std::size_t shifted, double by) {
  weights[shifted] += by;
  ScalarChainModule chain(weights, Activation::tanh, {});
  ScalarFeed feed({0.7}, {0.5});
  Workspace workspace;
  const Tensor output = chain.forward(chain.initial_weights(), feed.input(MicroBatch{0}),
                                      StageModule::Pass::normal, nullptr, workspace);
  return chain.loss(output, feed.target(MicroBatch{0}), 1, nullptr, workspace).loss;
}

TEST(ScalarChain, BothHalvesOfBackwardAgreeWithFiniteDifferences) {
  const std::vector<double> weights{0.9, -0.8, 1.1, 0.7};
  const auto stages = scalar_chain_stages(weights, std::vector{2, 2}, Activation::tanh, {});
  ScalarFeed feed({0.7}, {0.5});
  Workspace workspace;
  std::vector<std::unique_ptr<StageModule::Tape>> tapes(2);
  Tensor flow = feed.input(MicroBatch{0});
  for (std::size_t k = 0; k < 2; ++k) {
    flow = stages[k]->forward(stages[k]->initial_weights(), flow, StageModule::Pass::normal,
                              &tapes[k], workspace);
  }
  Tensor gradient;
  stages[1]->loss(flow, feed.target(MicroBatch{0}), 1, &gradient, workspace);
  for (const std::size_t k : {1, 0}) {
    gradient = stages[k]->backward_input(stages[k]->initial_weights(), *tapes[k], gradient, 1,
                                         k > 0, workspace);
  }
  EXPECT_TRUE(gradient.empty()) << "the first stage sends nothing";
  for (std::size_t k = 0; k < 2; ++k) {
    Tensor sums = stages[k]->zero_gradient();
    stages[k]->backward_weight(*tapes[k], sums, workspace);
    for (std::size_t j = 0; j < 2; ++j) {
      const double step = 1e-5;
      const double slope = (loss_at(weights, 2 * k + j, step) - loss_at(weights, 2 * k + j, -step));
      EXPECT_NEAR(sums.as<double>()[j], slope / (2 * step), 1e-9) << "stage " << k;
    }
  }
}

// Case O37: y = w0 x, z = w1 y, losses 0.5 and 24.5, mean gradients 22.5 and 15, in either order.
TEST(ScalarChain, TakesTheBackwardsOfABatchInAnyOrder) {
  for (const auto& order : {std::vector{0, 1}, std::vector{1, 0}}) {
    ScalarChainModule chain({2.0, 3.0}, Activation::identity, {});
    ScalarFeed feed({1, 2}, {5, 5});
    Workspace workspace;
    Tensor weights = chain.initial_weights();
    std::vector<std::unique_ptr<StageModule::Tape>> tapes(2);
    std::vector<Tensor> gradients(2);
    std::vector<double> losses;
    for (int i = 0; i < 2; ++i) {
      const Tensor output = chain.forward(weights, feed.input(MicroBatch{i}),
                                          StageModule::Pass::normal, &tapes[i], workspace);
      losses.push_back(
          chain.loss(output, feed.target(MicroBatch{i}), 0.5, &gradients[i], workspace).loss);
    }
    EXPECT_EQ(losses, (std::vector{0.5, 24.5}));
    Tensor sums = chain.zero_gradient();
    for (const int i : order) {
      chain.backward(weights, *tapes[i], gradients[i], 1, false, sums, workspace);
    }
    EXPECT_EQ(to_vector(sums), (std::vector{22.5, 15.0}));
    chain.update(weights, sums, 0.1);
    EXPECT_EQ(to_vector(weights), (std::vector{2.0 - 0.1 * 22.5, 3.0 - 0.1 * 15.0}));
    EXPECT_EQ(to_vector(sums), (std::vector{0.0, 0.0}));
  }
}

TEST(ScalarChain, RefusesSizesThatDoNotMatchTheWeights) {
  const std::vector<double> weights{1, 2, 3};
  for (const auto& sizes : std::vector<std::vector<int>>{{1, 1}, {2, 2}, {3, 0}, {4, -1}}) {
    EXPECT_THROW(scalar_chain_stages(weights, sizes, Activation::tanh, {}), Error);
  }
}

TEST(ScalarFeed, RefusesListsOfDifferentLengthAndMicroBatchesPastTheEnd) {
  EXPECT_THROW(ScalarFeed({1, 2}, {1}), Error);
  ScalarFeed feed({1, 2}, {3, 4});
  EXPECT_EQ(*feed.target(MicroBatch{1}).data<double>(), 4);
  EXPECT_THROW(feed.input(MicroBatch{2}), Error);
}

}  // namespace
}  // namespace unlatch::exec
