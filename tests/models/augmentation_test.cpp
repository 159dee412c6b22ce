// Random changes of images: which there are, where their pixels go, and that they draw evenly.
#include "models/augmentation.h"

#include <map>
#include <set>

#include "models/dataset.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Augmentation parsed(std::string_view text) { return Augmentation::parse(text, "--augment"); }

TEST(Augmentation, IsReadInAnyOrder) {
  EXPECT_EQ(parsed("crop=4,flip").crop, 4);
  EXPECT_TRUE(parsed("crop=4,flip").flip);
  EXPECT_TRUE(parsed("flip,crop=2").flip);
  EXPECT_EQ(parsed("flip").crop, 0);
  EXPECT_FALSE(parsed("crop=1").flip);
  EXPECT_FALSE(Augmentation{}.any());
  for (const char* text : {"", "flop", "crop", "crop=", "crop=0", "crop=65", "crop=4.5", "crop=4,",
                           "flip=yes", "crop=4,crop=4", "flip,flip", "normalize=no"}) {
    EXPECT_THAT(message_of([&] { parsed(text); }), HasSubstr("--augment")) << text;
  }
  EXPECT_THAT(message_of([] { parsed("flop"); }), HasSubstr("'flip'"));
}

/// A channel that counts 1, 2, .. 12, and a second one ten times that; out come the pixels.
Dataset counting() {
  Dataset data;
  data.shape = {2, 3, 4};
  for (int i = 1; i <= 12; ++i) data.pixels.push_back(static_cast<std::uint8_t>(i));
  for (int i = 1; i <= 12; ++i) data.pixels.push_back(static_cast<std::uint8_t>(10 * i));
  data.labels = {0};
  data.scale = 1;
  data.mean = {0, 0};
  data.deviation = {1, 1};
  return data;
}

std::vector<float> changed(const ImageChange& change, int channel = 0) {
  std::vector<float> out(24);
  counting().copy_sample(0, {2, 3, 4}, out, change);
  return {out.begin() + 12 * channel, out.begin() + 12 * (channel + 1)};
}

TEST(ImageChange, MovesAndMirrorsEveryChannel) {
  EXPECT_THAT(changed({}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(changed({.down = 1, .right = 0}), ElementsAre(5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0));
  EXPECT_THAT(changed({.down = -2, .right = 1}), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 4, 0));
  EXPECT_THAT(changed({.mirrored = true}), ElementsAre(4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9));
  // The window first, then its mirror image.
  EXPECT_THAT(changed({.down = 0, .right = 1, .mirrored = true}, 1),
              ElementsAre(0, 40, 30, 20, 0, 80, 70, 60, 0, 120, 110, 100));
  EXPECT_THAT(changed({.down = 9, .right = 9}), testing::Each(0));
}

/// Beyond the edge are pixels of value 0, which are none of the mean.
TEST(ImageChange, FillsWithNormalisedBlack) {
  Dataset data = counting();
  data.mean = {3, 0};
  data.deviation = {2, 1};
  std::vector<float> out(24);
  data.copy_sample(0, {2, 3, 4}, out, {.down = 2});
  EXPECT_THAT(std::vector<float>(out.begin(), out.begin() + 5), ElementsAre(3, 3.5, 4, 4.5, -1.5));
}

TEST(Augmentation, DrawsEveryChangeAboutAsOften) {
  const Augmentation augmentation{.crop = 1, .flip = true};
  std::map<std::tuple<int, int, bool>, int> counts;
  constexpr int samples = 18'000;
  for (int sample = 0; sample < samples; ++sample) {
    const ImageChange change = augmentation.of(5, 2, sample);
    ++counts[{change.down, change.right, change.mirrored}];
  }
  ASSERT_EQ(counts.size(), 18u);
  for (const auto& [change, count] : counts) {
    EXPECT_NEAR(count, samples / 18, 160);  // five deviations
    EXPECT_LE(std::abs(std::get<0>(change)), 1);
  }
}

TEST(Augmentation, DrawsAnewForEverySeedEpochAndSample) {
  const Augmentation augmentation{.crop = 30, .flip = true};
  std::set<std::tuple<int, int, bool>> different;
  const auto draw = [&](std::uint64_t seed, int epoch, int sample) {
    const ImageChange change = augmentation.of(seed, epoch, sample);
    different.insert({change.down, change.right, change.mirrored});
  };
  for (int n = 0; n < 4; ++n) {
    draw(1 + static_cast<std::uint64_t>(n), 0, 0);
    draw(1, 1 + n, 0);
    draw(1, 0, 1 + n);
    draw(1, 0, 0);
  }
  EXPECT_EQ(different.size(), 12u);
}

}  // namespace
}  // namespace unlatch::models
