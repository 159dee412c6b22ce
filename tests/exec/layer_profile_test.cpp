// No time is asserted here: only which samples count, and that the parts belong together.
#include "exec/layer_profile.h"

#include <gtest/gtest.h>

#include "schedules/error.h"
#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

// Case O36: the first step costs nine times the others.
TEST(LayerProfile, LeavesTheWarmUpOutOfTheMedian) {
  const std::vector<std::int64_t> samples{900, 101, 99, 100, 102, 98};
  EXPECT_EQ(measurement_of(samples, 1).median_ns, 100);
  EXPECT_EQ(measurement_of(samples, 1).lower_ns, 99);
  EXPECT_EQ(measurement_of(samples, 1).upper_ns, 101);
  EXPECT_EQ(measurement_of(samples, 0).median_ns, 101) << "all kept: 100.5, rounded";
  EXPECT_THROW(measurement_of(samples, 6), Error);
  EXPECT_THROW(measurement_of(samples, -1), Error);
}

models::Dataset images() {
  std::vector<std::int32_t> labels;
  for (int s = 0; s < 16; ++s) labels.push_back(s % 4);
  return dataset_of({3, 8, 8}, 4, std::vector<std::uint8_t>(16 * 192, 100), labels, 255);
}

TEST(LayerProfile, HoldsEveryLayerWithItsSizes) {
  const models::Model model = small_network();
  const LayerProfile profile = profile_layers(
      model, images(), {.micro_batch_size = 4, .samples = 3, .warm_up = 1, .workers = 2});
  EXPECT_EQ(profile.samples, 3);
  EXPECT_EQ(profile.left_out, 1);
  EXPECT_EQ(profile.workers, 2);
  ASSERT_EQ(profile.layers.size(), model.layers.size());
  const auto shapes = model.shapes();
  for (std::size_t j = 0; j < profile.layers.size(); ++j) {
    const LayerCost& layer = profile.layers[j];
    EXPECT_EQ(layer.name, model.layers[j].name);
    EXPECT_GT(layer.forward.median_ns, 0);
    EXPECT_GT(layer.forward_only.median_ns, 0);
    EXPECT_GT(layer.backward.median_ns, 0);
    EXPECT_LE(layer.forward.lower_ns, layer.forward.median_ns);
    EXPECT_GE(layer.forward.upper_ns, layer.forward.median_ns);
    EXPECT_EQ(layer.parameter_bytes,
              static_cast<std::size_t>(models::parameter_count(model.layers[j], shapes[j])) * 4);
    EXPECT_GE(layer.output_bytes, static_cast<std::size_t>(shapes[j + 1].elements()) * 4 * 4)
        << "blocked layouts may pad channels";
  }
  EXPECT_GT(profile.input.median_ns, 0);
  EXPECT_GT(profile.loss.median_ns, 0);
  EXPECT_GT(profile.step.median_ns, profile.layers[0].forward.median_ns);
  EXPECT_EQ(profile.layers[6].tape_bytes, 0U) << "an average needs nothing to go back";
  EXPECT_EQ(profile.layers[7].tape_bytes, 16U * 4 * 4);
}

TEST(LayerProfile, StopsWhenCancelled) {
  int asked = 0;
  EXPECT_THROW(profile_layers(small_network(), images(),
                              {.micro_batch_size = 4,
                               .samples = 1000000,
                               .workers = 2,
                               .cancelled = [&asked] { return ++asked == 3; }}),
               RunError);
  EXPECT_EQ(asked, 3);
}

TEST(LayerProfile, RefusesOptionsWithoutSense) {
  const models::Model model = small_network();
  EXPECT_THROW(profile_layers(model, images(), {.micro_batch_size = 4, .samples = 0}), Error);
  EXPECT_THROW(profile_layers(model, images(), {.micro_batch_size = 4, .workers = 0}), Error);
  EXPECT_THROW(profile_layers(model, images(), {.micro_batch_size = 64}), Error)
      << "16 samples give no batch of 64";
}

}  // namespace
}  // namespace unlatch::exec
