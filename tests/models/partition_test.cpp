// Partitions, among them the acceptance cases O09, O10 and O11.
#include "models/partition.h"

#include <algorithm>
#include <numeric>

#include "models/random.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> sizes(const std::vector<StageRange>& ranges) {
  std::vector<int> result;
  for (const StageRange& range : ranges) result.push_back(range.layers());
  return result;
}

void expect_cover(const std::vector<StageRange>& ranges, int layers) {
  int next = 0;
  for (const StageRange& range : ranges) {
    EXPECT_EQ(range.first, next);
    EXPECT_GE(range.last, range.first);
    next = range.last + 1;
  }
  EXPECT_EQ(next, layers);
}

TEST(Partition, O09BalancedLeavesNoStageEmpty) {
  const std::vector<double> costs(5, 1.0);
  const std::vector<StageRange> four = balanced_partition(costs, 4);
  expect_cover(four, 5);
  EXPECT_EQ(
      std::max_element(four.begin(), four.end(), [](auto& a, auto& b) { return a.cost < b.cost; })
          ->cost,
      2);
  for (int repeat = 0; repeat < 10; ++repeat) EXPECT_EQ(balanced_partition(costs, 4), four);
  EXPECT_THAT(sizes(balanced_partition(costs, 5)), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(message_of([&] { balanced_partition(costs, 6); }),
              AllOf(HasSubstr("5 layers"), HasSubstr("6 stages")));
}

TEST(Partition, O10UniformSpreadsTheRemainder) {
  const std::vector<StageRange> ranges = uniform_partition(38, 8);
  expect_cover(ranges, 38);
  EXPECT_THAT(sizes(ranges), ElementsAre(5, 5, 5, 5, 5, 5, 4, 4));
}

TEST(Partition, O11UniformLosesNoLayer) {
  const std::vector<StageRange> ranges = uniform_partition(30, 4);
  expect_cover(ranges, 30);
  EXPECT_THAT(sizes(ranges), ElementsAre(8, 8, 7, 7));
}

TEST(Partition, UniformRefusesWhatCannotBe) {
  EXPECT_THAT(message_of([] { uniform_partition(2, 3); }),
              AllOf(HasSubstr("2 layers"), HasSubstr("3 stages")));
  EXPECT_THAT(message_of([] { uniform_partition(2, 0); }), HasSubstr("not 0"));
}

TEST(Partition, TiesGoToTheLeastSumOfSquaresAndThenTheEarliestCuts) {
  // Largest load 4 in any case; 4 | 1 1 | 1 has squares 16+4+1, as 4 | 1 | 1 1 has, cut earlier.
  const std::vector<double> costs{4, 1, 1, 1};
  EXPECT_THAT(sizes(balanced_partition(costs, 3)), ElementsAre(1, 1, 2));
  // Equal layers whose sums round differently must not disturb the tie.
  EXPECT_THAT(sizes(balanced_partition(std::vector<double>(5, 0.1), 4)), ElementsAre(1, 1, 1, 2));
}

/// All ways to cut `layers` into `stages`, as lists of last layers.
void enumerate(int layers, int stages, std::vector<int>& lasts,
               const std::function<void(const std::vector<int>&)>& visit) {
  const int first = lasts.empty() ? 0 : lasts.back() + 1;
  if (stages == 1) {
    lasts.push_back(layers - 1);
    visit(lasts);
    lasts.pop_back();
    return;
  }
  for (int last = first; last <= layers - stages; ++last) {
    lasts.push_back(last);
    enumerate(layers, stages - 1, lasts, visit);
    lasts.pop_back();
  }
}

TEST(Partition, BalancedEqualsTheBestOfAllCuts) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const int layers = 4 + static_cast<int>(seed % 7);
    const int stages = 1 + static_cast<int>(seed % 4);
    std::vector<double> costs;
    for (int j = 0; j < layers; ++j) {
      costs.push_back(static_cast<double>(random_bits(seed, j) % 6));
    }
    std::vector<double> best;  // largest load, sum of squares, then the cuts
    std::vector<int> scratch;
    enumerate(layers, stages, scratch, [&](const std::vector<int>& lasts) {
      std::vector<double> key{0, 0};
      int first = 0;
      for (int last : lasts) {
        const double load = std::accumulate(&costs[first], &costs[0] + last + 1, 0.0);
        key[0] = std::max(key[0], load);
        key[1] += load * load;
        key.push_back(last);
        first = last + 1;
      }
      if (best.empty() || key < best) best = key;
    });
    std::vector<StageRange> ranges = balanced_partition(costs, stages);
    expect_cover(ranges, layers);
    for (int k = 0; k < stages; ++k) EXPECT_EQ(ranges[k].last, best[2 + k]) << "seed " << seed;
    EXPECT_EQ(ranges[bottleneck(ranges, costs)].cost, best[0]);
  }
}

TEST(Partition, BestPartitionTakesACostThatDependsOnTheStage) {
  // Recompute doubles the price everywhere but on the last stage, which therefore takes more.
  const auto cost = [](int first, int last, int stage) {
    return (last - first + 1) * (stage == 1 ? 1.0 : 2.0);
  };
  EXPECT_THAT(sizes(best_partition(6, 2, cost)), ElementsAre(2, 4));
}

TEST(Partition, WhatIsKnownOfPricesChangesNoSplit) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<double> before{0};
    for (int j = 0; j < 23; ++j) {
      before.push_back(before.back() + static_cast<double>(random_bits(seed, j) % 4));
    }
    const int stages = 1 + static_cast<int>(seed % 23);
    const auto sum = [&](int first, int last, int) { return before[last + 1] - before[first]; };
    const auto expected = best_partition(23, stages, sum);
    EXPECT_EQ(best_partition(23, stages, sum, Price::sums), expected);
    EXPECT_EQ(best_partition(23, stages, sum, Price::grows), expected);
    const auto growing = [&](int first, int last, int stage) {
      return sum(first, last, stage) * (stage % 3 + 1);
    };
    EXPECT_EQ(best_partition(23, stages, growing, Price::grows),
              best_partition(23, stages, growing));
  }
}

TEST(Partition, SplitsThousandsOfLayersOnThousandsOfStages) {
  std::vector<double> costs(6000, 1.0);
  EXPECT_THAT(sizes(balanced_partition(costs, 3000)), testing::Each(2));
  // No bound on the other stages comes from the heavy one, which is alone.
  costs[3000] = 1e6;
  const auto ranges = balanced_partition(costs, 3000);
  expect_cover(ranges, 6000);
  int heavy = 0, largest = 0;
  for (const StageRange& range : ranges) {
    if (range.first <= 3000 && range.last >= 3000) {
      heavy = range.layers();
    } else {
      largest = std::max(largest, range.layers());
    }
  }
  EXPECT_EQ(heavy, 1);
  EXPECT_EQ(largest, 3) << "5999 layers on 2999 stages, one of them of three";
}

TEST(Partition, ExplicitSizesAreChecked) {
  const std::vector<StageRange> ranges = explicit_partition("5/3/4", 12, 3);
  expect_cover(ranges, 12);
  EXPECT_THAT(sizes(ranges), ElementsAre(5, 3, 4));
  const auto error = [](std::string_view text, int layers, int stages) {
    return message_of([&] { explicit_partition(text, layers, stages); });
  };
  EXPECT_THAT(error("7/7/7/7", 30, 4), AllOf(HasSubstr("28"), HasSubstr("30 layers")));
  EXPECT_THAT(error("20/20", 30, 2), HasSubstr("30 layers"));
  EXPECT_THAT(error("15/15", 30, 3), AllOf(HasSubstr("2 sizes"), HasSubstr("3 stages")));
  EXPECT_THAT(error("30/0", 30, 2), HasSubstr("'0'"));
  EXPECT_THAT(error("5,3", 8, 2), HasSubstr("slashes"));
  EXPECT_THAT(error("", 8, 2), HasSubstr("''"));
  EXPECT_THAT(error("2147483647/2147483647", 8, 2), HasSubstr("8 layers"));
}

TEST(Partition, BottleneckSumsCostsAndTakesTheLowestOfEqualStages) {
  std::vector<StageRange> ranges = explicit_partition("1/2/1", 4, 3);
  EXPECT_EQ(bottleneck(ranges, std::vector<double>{3, 1, 2, 1}), 0);
  EXPECT_EQ(ranges[1].cost, 3);
  EXPECT_EQ(bottleneck(ranges, std::vector<double>{3, 2, 2, 1}), 1);
  EXPECT_THAT(message_of([&] {
                bottleneck(ranges, std::vector<double>{3, 2});
              }),
              HasSubstr("2 layers"));
}

TEST(Partition, CostsMustBeNumbers) {
  EXPECT_THAT(message_of([] {
                balanced_partition(std::vector<double>{1, -2}, 1);
              }),
              AllOf(HasSubstr("layer 1"), HasSubstr("-2")));
}

}  // namespace
}  // namespace unlatch::models
