// Samples as floats, and the order of batches.
#include "models/dataset.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two samples of 1x2x2.
Dataset grey() {
  Dataset data;
  data.name = "grey";
  data.shape = {1, 2, 2};
  data.pixels = {9, 9, 9, 9, 0, 10, 20, 30};
  data.labels = {0, 1};
  data.scale = 10;
  data.mean = {1};
  data.deviation = {2};
  return data;
}

TEST(Dataset, CopiesASampleNormalised) {
  std::vector<float> out(4);
  grey().copy_sample(1, {1, 2, 2}, out);
  EXPECT_THAT(out, ElementsAre(-0.5F, 0.0F, 0.5F, 1.0F));
}

TEST(Dataset, PadsWithPixelZeroAndRepeatsOneChannel) {
  std::vector<float> out(2 * 3 * 4, 99);
  grey().copy_sample(1, {2, 3, 4}, out);
  const float z = -0.5F;
  const std::vector<float> plane{z, z, 0.0F, z, z, 0.5F, 1.0F, z, z, z, z, z};
  EXPECT_TRUE(std::equal(plane.begin(), plane.end(), out.begin()));
  EXPECT_TRUE(std::equal(plane.begin(), plane.end(), out.begin() + 12));
}

TEST(Dataset, NormalisesEachChannelByItself) {
  Dataset data;
  data.shape = {2, 1, 1};
  data.pixels = {1, 1};
  data.labels = {0};
  data.scale = 1;
  data.mean = {0, 1};
  data.deviation = {0.5, 1};
  std::vector<float> out(2);
  data.copy_sample(0, {2, 1, 1}, out);
  EXPECT_THAT(out, ElementsAre(2.0F, 0.0F));
}

TEST(Dataset, RefusesASampleThatDoesNotFit) {
  EXPECT_THAT(message_of([] {
                require_fits(grey(), {1, 1, 2});
              }),
              AllOf(HasSubstr("grey"), HasSubstr("1x2x2"), HasSubstr("1x1x2")));
  Dataset two = grey();
  two.shape = {2, 2, 1};
  EXPECT_THAT(message_of([&] { require_fits(two, {3, 2, 2}); }), HasSubstr("3x2x2"));
  std::vector<float> out(3);
  EXPECT_THAT(message_of([&] { grey().copy_sample(0, {1, 2, 2}, out); }), HasSubstr("3"));
  EXPECT_THAT(message_of([&] { grey().copy_sample(2, {1, 2, 2}, out); }), HasSubstr("sample 2"));
}

BatchOrder order_of(int samples, int batch_size, std::uint64_t seed) {
  return {BatchSizes(samples, {.batch_size = batch_size}), seed};
}

std::vector<int> epoch(const BatchOrder& order, int number, int samples, int batch_size) {
  std::vector<int> all;
  const int batches = samples / batch_size;
  for (int b = 0; b < batches; ++b) {
    const std::vector<int> batch = order.indices(number * batches + b, 0, batch_size);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(BatchOrder, AnEpochHoldsEverySampleOnce) {
  for (int samples : {1, 2, 3, 4, 5, 7, 16, 17, 60, 1437}) {
    const BatchOrder order = order_of(samples, 1, 3);
    for (int number : {0, 1, 2}) {
      std::vector<int> drawn = epoch(order, number, samples, 1);
      std::sort(drawn.begin(), drawn.end());
      std::vector<int> all(samples);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(drawn, all) << samples;
    }
  }
}

TEST(BatchOrder, WholeBatchesOnlyAndOtherSamplesLeftOutEachEpoch) {
  const BatchOrder order = order_of(103, 10, 5);
  std::set<int> left_out;
  for (int number = 0; number < 20; ++number) {
    const std::vector<int> drawn = epoch(order, number, 103, 10);
    const std::set<int> seen(drawn.begin(), drawn.end());
    EXPECT_EQ(seen.size(), 100u);
    for (int i = 0; i < 103; ++i) {
      if (!seen.count(i)) left_out.insert(i);
    }
  }
  EXPECT_GT(left_out.size(), 20u);
}

TEST(BatchOrder, DependsOnTheSeedAndTheEpochAndNothingElse) {
  const BatchOrder order = order_of(1000, 50, 1);
  const std::vector<int> whole = order.indices(7, 0, 50);
  std::vector<int> parts = order.indices(7, 0, 20);
  const std::vector<int> rest = order.indices(7, 20, 30);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(order_of(1000, 50, 1).indices(7, 0, 50), whole);
  EXPECT_NE(order_of(1000, 50, 2).indices(7, 0, 50), whole);
  EXPECT_NE(order.indices(27, 0, 50), whole);  // the same place of the next epoch
}

TEST(BatchOrder, EverySampleIsEquallyLikelyAtEveryPlace) {
  constexpr int samples = 6;
  constexpr int epochs = 6000;
  std::vector<int> counts(samples * samples);
  const BatchOrder order = order_of(samples, samples, 11);
  for (int number = 0; number < epochs; ++number) {
    const std::vector<int> drawn = order.indices(number, 0, samples);
    for (int place = 0; place < samples; ++place) ++counts[place * samples + drawn[place]];
  }
  for (int count : counts) EXPECT_NEAR(count, epochs / samples, 150);  // five deviations
}

TEST(BatchOrder, RefusesWhatIsNotInABatch) {
  EXPECT_THAT(message_of([] { order_of(10, 5, 0).indices(0, 3, 3); }), HasSubstr("batch of 5"));
}

}  // namespace
}  // namespace unlatch::models
