// Dropout and running statistics through the executor: what recomputes, what moves them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/error.h"
#include "tests/exec/network_run.h"

namespace unlatch::exec {
namespace {

TEST(DropoutRuns, LeaveOtherWeightsThanRunsWithout) {
  EXPECT_GT(relative_difference(train({.model = "lenet:dropout=0.4"}), train({})), 1e-3);
  EXPECT_GT(relative_difference(train({.model = "lenet:dropout=0.4"}),
                                train({.model = "lenet:dropout=0.41"})),
            1e-4);
}

/// With the norm's own statistics no sum comes in another order: every bit is the same.
TEST(DropoutRuns, DrawTheSameAgainInARecompute) {
  for (const std::string model : {"lenet:dropout=0.4", "wrn-10-1:input=data,width=8,dropout=0.3"}) {
    const auto with = [&](const char* schedule) {
      return train({.schedule = schedule, .model = model, .stages = 3, .micro_batches = 4});
    };
    const std::vector<float> kept = with("gpipe");
    EXPECT_EQ(with("gpipe:recompute=always"), kept) << model;
    EXPECT_EQ(with("gpipe:recompute=except_last"), kept) << model;
  }
}

TEST(DropoutRuns, ThreadsChangeNoBit) {
  for (const std::string schedule : {"ddg", "fr", "fdg", "dsp", "dgl"}) {
    const NetworkRun one{
        .schedule = schedule, .model = "lenet:dropout=0.4", .stages = 3, .workers = 1};
    NetworkRun three = one;
    three.workers = 3;
    EXPECT_EQ(train(three), train(one)) << schedule;
  }
}

TEST(DropoutRuns, ReplicasDrawWhatTheWholeBatchDraws) {
  const NetworkRun one{.model = "lenet:dropout=0.4", .stages = 2};
  NetworkRun two = one;
  two.schedule = "ssgd";
  two.replicas = 2;
  EXPECT_LE(relative_difference(train(two), train(one)), 1e-5);
}

// ---- running statistics ------------------------------------------------------------------------

constexpr const char* normed = "resnet8:input=data,width=4";

TEST(StatisticUpdates, ChangeNoWeight) {
  const NetworkRun forward{
      .schedule = "gpipe:recompute=always", .model = normed, .stages = 2, .micro_batches = 2};
  const TrainedNetwork expected = train_network(forward);
  for (const StatisticUpdates which : {StatisticUpdates::recompute, StatisticUpdates::both}) {
    NetworkRun run = forward;
    run.statistics = which;
    const TrainedNetwork found = train_network(run);
    EXPECT_EQ(found.weights, expected.weights);
    EXPECT_NE(found.statistics, expected.statistics);
  }
}

/// Where R comes in the order of F, at the weights of F.
TEST(StatisticUpdates, OfRecomputesAreThoseOfForwardsInTheSameOrder) {
  NetworkRun run{.schedule = "gpipe:recompute=always,backward=ascending",
                 .model = normed,
                 .stages = 2,
                 .micro_batches = 4};
  const std::vector<float> forward = train_network(run).statistics;
  run.statistics = StatisticUpdates::recompute;
  EXPECT_EQ(train_network(run).statistics, forward);
}

/// s1 = (1-m) s0 + m b and s2 = (1-m) s1 + m b, so that s2 = s1 + (1-m) (s1 - s0).
TEST(StatisticUpdates, OfBothMoveTwiceTowardsTheBatch) {
  constexpr float rest = 0.9F;
  NetworkRun run{.schedule = "gpipe:recompute=always", .model = normed, .batches = 1};
  const std::vector<float> once = train_network(run).statistics;
  run.statistics = StatisticUpdates::both;
  const std::vector<float> twice = train_network(run).statistics;
  ASSERT_EQ(once.size(), twice.size());
  bool variance = false;  // of the first norm, 4 channels: means 0, then variances 1
  for (std::size_t c = 0; c < 8; ++c) {
    variance = c >= 4;
    const float before = variance ? 1 : 0;
    EXPECT_NEAR(twice[c], once[c] + rest * (once[c] - before), 1e-5) << c;
  }
}

TEST(StatisticUpdates, StayWithTheForwardWhereNothingIsRecomputed) {
  NetworkRun run{.schedule = "ddg", .model = normed, .stages = 2};
  const std::vector<float> forward = train_network(run).statistics;
  run.statistics = StatisticUpdates::recompute;
  EXPECT_EQ(train_network(run).statistics, forward);
}

TEST(StatisticUpdates, OfForwardsAndRecomputesSideBySideAreRefused) {
  NetworkRun run{.schedule = "dsp", .model = normed, .stages = 3};
  run.statistics = StatisticUpdates::both;
  try {
    train(run);
    FAIL() << "the order of the two would depend on timing";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("F and R of stage 0 run side by side"));
  }
  run.statistics = StatisticUpdates::recompute;
  EXPECT_FALSE(train_network(run).statistics.empty());
}

}  // namespace
}  // namespace unlatch::exec
