// What libraries cannot count is refused where a shape is made, before anything has that size.
#include "models/layer_sizes.h"

#include <limits>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refused(const Layer& layer, const SampleShape& input) {
  return message_of([&] { output_shape(layer, input); });
}

TEST(LayerSizes, EndWhere32BitsEnd) {
  static_assert(most_numbers == std::numeric_limits<std::int32_t>::max());
  const Layer relu{"r", Relu{}};
  EXPECT_EQ(output_shape(relu, {1, 65536, 32767}).elements(), 65536LL * 32767);
  EXPECT_THAT(refused(relu, {1, 65536, 32768}),
              AllOf(HasSubstr("layer r"), HasSubstr("1x65536x32768"), HasSubstr("2147483648")));
  constexpr int largest = std::numeric_limits<int>::max();
  EXPECT_THAT(refused(relu, {largest, largest, largest}), HasSubstr("layer r"));
}

TEST(LayerSizes, CountWhatALayerHandsOn) {
  const auto convolution = [](int channels) {
    return Layer{"c", Convolution{.out_channels = channels, .kernel = 1}};
  };
  EXPECT_EQ(output_shape(convolution(127), {1, 4096, 4096}).channels, 127);
  EXPECT_THAT(refused(convolution(128), {1, 4096, 4096}),
              AllOf(HasSubstr("layer c"), HasSubstr("output 128x4096x4096")));
  const Layer token{"t", Linear{.out_features = 1 << 20}};
  EXPECT_THAT(refused(token, {4096, 1, 8, true}), HasSubstr("layer t"));
  const Layer block{"b", Residual{.body = {convolution(128), convolution(1)}, .shortcut = {}}};
  EXPECT_THAT(refused(block, {1, 4096, 4096}), HasSubstr("layer c"));
}

TEST(LayerSizes, CountWeightsAndPairsOfTokens) {
  const Layer wide{"w", Convolution{.out_channels = 1, .kernel = 65536, .padding = 32768}};
  EXPECT_THAT(refused(wide, {1, 1, 1}), AllOf(HasSubstr("layer w"), HasSubstr("4294967296")));
  const Layer wider{"v",
                    Convolution{.out_channels = 1 << 20, .kernel = 1 << 20, .padding = 1 << 19}};
  EXPECT_THAT(refused(wider, {1 << 20, 1, 1}), HasSubstr("layer v"));
  const Layer attention{"a", CausalSelfAttention{}};
  EXPECT_EQ(output_shape(attention, {46340, 1, 3, true}).width, 1);
  EXPECT_THAT(refused(attention, {46341, 1, 3, true}),
              AllOf(HasSubstr("layer a"), HasSubstr("46341 tokens"), HasSubstr("2147488281")));
}

TEST(LayerSizes, RefuseWindowsThatNobodyWaitsFor) {
  const Convolution convolution{.out_channels = 1, .kernel = 16384};
  const MaxPool pool{.kernel = 16384, .stride = 1};
  EXPECT_THAT(refused({"c", convolution}, {1, 32768, 32768}), HasSubstr("layer c"));
  EXPECT_THAT(refused({"p", pool}, {1, 32768, 32768}), HasSubstr("layer p"));
}

TEST(LayerSizes, LetPoolingWindowsBeLargerThanAnInt) {
  const Layer pool{"p", MaxPool{.kernel = 50000, .stride = 1, .padding = 24999}};
  EXPECT_EQ(forward_flops(pool, {1, 2, 2}), 50000LL * 50000 - 1);
  EXPECT_EQ(tape_bytes(pool, {1, 2, 2}), 4);  // the place of its only maximum
}

TEST(LayerSizes, FindTheLargestTensor) {
  const Layer narrow{"in", Convolution{.out_channels = 5, .kernel = 1}};
  const Layer wide{"out", Convolution{.out_channels = 3, .kernel = 1}};
  Model model{.name = "m",
              .input = {3, 8, 8},
              .classes = 10,
              .layers = {{"r", Relu{}}, {"b", Residual{.body = {narrow, wide}, .shortcut = {}}}}};
  EXPECT_EQ(largest_tensor(model).layer, "in");
  EXPECT_EQ(largest_tensor(model).numbers, 5 * 8 * 8);
  model.layers.pop_back();
  EXPECT_EQ(largest_tensor(model).layer, "r");
  EXPECT_EQ(largest_tensor(model).numbers, 3 * 8 * 8);
  const Model text{.name = "t",
                   .input = {100, 1, 6, true},
                   .classes = 2,
                   .layers = {{"a", CausalSelfAttention{.heads = 2}}}};
  EXPECT_EQ(largest_tensor(text).numbers, 2 * 100 * 100);
}

TEST(LayerSizes, FindBatchNormsOfOneValueAChannel) {
  const Layer norm{"n", BatchNorm{}};
  Model model{.name = "m",
              .input = {3, 8, 8},
              .classes = 10,
              .layers = {norm, {"g", GlobalAveragePool{}}, {"r", Relu{}}}};
  EXPECT_EQ(one_valued_norm(model, 1), std::nullopt);
  model.layers.push_back({"b", Residual{.body = {{"x", Relu{}}}, .shortcut = {norm}}});
  EXPECT_EQ(one_valued_norm(model, 2), std::nullopt);
  EXPECT_EQ(one_valued_norm(model, 1), "b.n");
}

}  // namespace
}  // namespace unlatch::models
