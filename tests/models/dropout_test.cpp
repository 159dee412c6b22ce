// What dropout draws: how much, and that nothing hangs together that should not.
#include "models/dropout.h"

#include <cmath>
#include <functional>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

constexpr int samples = 50;
constexpr int elements = 400;

std::vector<bool> drawn(const DropoutMask& mask) {
  std::vector<bool> kept;
  for (int n = 0; n < samples; ++n) {
    for (int i = 0; i < elements; ++i) kept.push_back(mask.keeps(n, i));
  }
  return kept;
}

double share(const std::vector<bool>& a, const std::function<bool(std::size_t)>& counts) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += counts(i) ? 1 : 0;
  return sum / static_cast<double>(a.size());
}

/// Within five deviations of a mean of so many draws.
void expect_share(double found, double probability) {
  const double deviation = std::sqrt(probability * (1 - probability) / (samples * elements));
  EXPECT_NEAR(found, probability, 5 * deviation + 1e-12);
}

TEST(Dropout, KeepsItsShare) {
  for (const double probability : {0.0, 0.1, 0.5, 0.9, 0.99}) {
    const std::vector<bool> kept = drawn(mask_of(probability, 1, draw_of(3, 7, 0)));
    expect_share(share(kept, [&](std::size_t i) { return kept[i]; }), 1 - probability);
  }
  EXPECT_FLOAT_EQ(kept_factor(0.2), 1.25F);
  EXPECT_EQ(kept_factor(0), 1);
}

/// Two draws agree as often as two coins.
TEST(Dropout, DrawsApartForEverySeedBatchDropoutAndSample) {
  const double p = 0.3;
  const std::vector<bool> one = drawn(mask_of(p, 1, draw_of(3, 7, 0)));
  for (const std::vector<bool>& other :
       {drawn(mask_of(p, 2, draw_of(3, 7, 0))), drawn(mask_of(p, 1, draw_of(4, 7, 0))),
        drawn(mask_of(p, 1, draw_of(3, 8, 0))), drawn(mask_of(p, 1, draw_of(3, 7, samples)))}) {
    expect_share(share(one, [&](std::size_t i) { return one[i] == other[i]; }),
                 p * p + (1 - p) * (1 - p));
  }
  expect_share(share(one, [&](std::size_t i) { return one[i] == one[(i + 1) % one.size()]; }),
               p * p + (1 - p) * (1 - p));
}

TEST(Dropout, DrawsForAPartWhatItDrawsForTheWhole) {
  const DropoutMask whole = mask_of(0.4, 5, draw_of(1, 2, 0));
  const DropoutMask part = mask_of(0.4, 5, draw_of(1, 2, 30));
  for (int n = 30; n < samples; ++n) {
    for (int i = 0; i < elements; ++i) EXPECT_EQ(part.keeps(n - 30, i), whole.keeps(n, i));
  }
}

}  // namespace
}  // namespace unlatch::models
