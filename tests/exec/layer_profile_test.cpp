// No time is asserted here: only which samples count, and that the parts belong together.
#include "exec/layer_profile.h"

#include <gtest/gtest.h>

#include "schedules/error.h"
#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

TEST(LayerProfile, MeanLeavesTheOuterTenthsOut) {
  const Measurement few = measurement_of({101, 99, 100, 102, 98, 103});
  EXPECT_EQ(few.mean_ns, 101) << "100.5, rounded; nothing to leave out";
  EXPECT_EQ(few.median_ns, 101);
  EXPECT_EQ(few.lower_ns, 99);
  EXPECT_EQ(few.upper_ns, 102);
  EXPECT_EQ(measurement_of({1, 10, 10, 10, 10, 20, 20, 20, 20, 9000}).mean_ns, 15);
  EXPECT_THROW(measurement_of({}), Error);
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
  EXPECT_EQ(profile.left_out, 1) << "one burst";
  EXPECT_EQ(profile.workers, 2);
  ASSERT_EQ(profile.layers.size(), model.layers.size());
  const auto shapes = model.shapes();
  for (std::size_t j = 0; j < profile.layers.size(); ++j) {
    const LayerCost& layer = profile.layers[j];
    EXPECT_EQ(layer.name, model.layers[j].name);
    EXPECT_GT(layer.forward.median_ns, 0);
    EXPECT_GT(layer.forward_only.median_ns, 0);
    EXPECT_GT(layer.backward.median_ns, 0);
    EXPECT_TRUE(j == 0 || layer.input_gradient.median_ns > 0);
    EXPECT_TRUE(layer.parameter_bytes == 0 || layer.weight_gradient.median_ns > 0);
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

TEST(LayerProfile, CountsWhatEachLayerKeepsForItsWeightGradient) {
  const auto layers =
      profile_layers(small_network(), images(), {.micro_batch_size = 4, .samples = 1}).layers;
  EXPECT_EQ(layers[0].weight_grad_activation_bytes, layers[0].tape_bytes + layers[0].output_bytes)
      << "a convolution: its input and its output's gradient";
  EXPECT_EQ(layers[1].weight_grad_activation_bytes, 2U * 10 * 4)
      << "a batch norm: the gradients of scale and shift, that came with the input's";
  EXPECT_EQ(layers[2].tape_bytes, 0U) << "what the ReLU keeps counts with the block that reads it";
  for (const std::size_t j : {2, 4, 5, 6}) {
    EXPECT_EQ(layers[j].weight_grad_activation_bytes, 0U) << layers[j].name << " has no weights";
  }
  EXPECT_EQ(layers[7].weight_grad_activation_bytes, (16U + 4) * 4 * 4);
}

// Case O36: what the first step costs on top (pages, caches, clocks) is in no sample.
TEST(LayerProfile, LeavesTheWarmUpOfEveryBurstOut) {
  const models::Model model = small_network();
  const models::Dataset data = images();
  LayerProfiler profiler(model, data,
                         {.micro_batch_size = 4, .samples = 5, .burst = 3, .warm_up = 2});
  int bursts = 0;
  for (; profiler.wants_more(); ++bursts) profiler.measure();
  EXPECT_EQ(bursts, 2);
  EXPECT_EQ(profiler.profile().samples, 5);
  EXPECT_EQ(profiler.profile().left_out, 4);
}

TEST(LayerProfile, GoesOnUntilTheSamplesTakeTheTimeAskedFor) {
  const models::Model model = small_network();
  const models::Dataset data = images();
  ProfileOptions options{.micro_batch_size = 4, .samples = 1, .burst = 1};
  const std::int64_t step = profile_layers(model, data, options).step.mean_ns;
  options.least_time = std::chrono::nanoseconds(50 * step);
  EXPECT_GT(profile_layers(model, data, options).samples, 1);
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
