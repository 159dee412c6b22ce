// The counter-based generator: published values and independence of streams.
#include "models/random.h"

#include <set>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

TEST(Random, IsSplitMix64) {
  // First outputs of the published generator for seed 1234567.
  EXPECT_EQ(random_bits(1234567, 0), 6457827717110365317u);
  EXPECT_EQ(random_bits(1234567, 1), 3203168211198807973u);
  EXPECT_EQ(random_bits(1234567, 2), 9817491932198370423u);
}

TEST(Random, UniformFillsTheUnitInterval) {
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = random_uniform(9, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(Random, DerivedKeysAreAllDifferent) {
  std::set<std::uint64_t> keys;
  for (int a = 0; a < 100; ++a) {
    for (int b = 0; b < 100; ++b) keys.insert(derived_key(derived_key(1, a), b));
  }
  EXPECT_EQ(keys.size(), 10000u);
}

}  // namespace
}  // namespace unlatch::models
