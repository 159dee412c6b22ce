// Distribution and Monte Carlo: percentiles by nearest rank, the interval of the mean, runs on all
// cores.
#include "sim/distribution.h"

#include <gmock/gmock.h>

#include "schedules/error.h"
#include "sim/monte_carlo.h"

namespace unlatch::sim {
namespace {

TEST(Distribution, TakesPercentilesByNearestRank) {
  std::vector<nanoseconds> values;
  for (int i = 200; i >= 1; --i) values.emplace_back(i);
  const Distribution found = distribution(values);
  EXPECT_EQ(found.runs, 200);
  EXPECT_EQ(found.mean, nanoseconds(101));
  EXPECT_EQ(found.p50, nanoseconds(100));
  EXPECT_EQ(found.p95, nanoseconds(190));
  EXPECT_EQ(found.p99, nanoseconds(198));
}

TEST(Distribution, OfOneRunIsThatRun) {
  const nanoseconds only(7);
  EXPECT_EQ(distribution({only}), (Distribution{1, only, only, only, only, only, only}));
}

TEST(Distribution, OfNoRunIsZero) { EXPECT_EQ(distribution({}), Distribution{}); }

// 0 and 1000 a hundred times each: mean 500, deviation 501.3, error 1.96 x 501.3 / sqrt(200).
TEST(Distribution, GivesTheIntervalOfTheMean) {
  std::vector<nanoseconds> values(100, nanoseconds(0));
  values.resize(200, nanoseconds(1000));
  const Distribution found = distribution(values);
  EXPECT_EQ(found.mean_low, nanoseconds(431));
  EXPECT_EQ(found.mean_high, nanoseconds(569));
}

TEST(MonteCarlo, KeepsTheOrderOfTheRuns) {
  const auto square = [](int run) { return nanoseconds(std::int64_t{run} * run); };
  const std::vector<nanoseconds> times = times_of_runs(3, 1000, square);
  ASSERT_EQ(times.size(), 1000U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(times[static_cast<std::size_t>(i)], square(3 + i));
  EXPECT_TRUE(times_of_runs(1, 0, square).empty());
}

TEST(MonteCarlo, RethrowsWhatARunThrows) {
  const auto fails = [](int run) -> nanoseconds {
    require(run != 17, "run {} fails", run);
    return nanoseconds(run);
  };
  EXPECT_THROW(times_of_runs(0, 100, fails), Error);
}

}  // namespace
}  // namespace unlatch::sim
