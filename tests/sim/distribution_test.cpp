// Distribution: percentiles by nearest rank.
#include "sim/distribution.h"

#include <gmock/gmock.h>

namespace unlatch::sim {
namespace {

TEST(Distribution, TakesPercentilesByNearestRank) {
  std::vector<nanoseconds> values;
  for (int i = 200; i >= 1; --i) values.emplace_back(i);
  const Distribution found = distribution(values);
  EXPECT_EQ(found, (Distribution{200, nanoseconds(101), nanoseconds(100), nanoseconds(190),
                                 nanoseconds(198)}));
}

TEST(Distribution, OfOneRunIsThatRun) {
  const nanoseconds only(7);
  EXPECT_EQ(distribution({only}), (Distribution{1, only, only, only, only}));
}

TEST(Distribution, OfNoRunIsZero) { EXPECT_EQ(distribution({}), Distribution{}); }

}  // namespace
}  // namespace unlatch::sim
