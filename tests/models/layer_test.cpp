// Shapes, parameters and statistics of layers.
#include "models/layer.h"

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

TEST(Layer, ConvolutionShrinksByItsKernelAndStride) {
  const Layer same{"c", Convolution{.out_channels = 8, .kernel = 3, .stride = 1, .padding = 1}};
  EXPECT_EQ(output_shape(same, {3, 10, 7}), (SampleShape{8, 10, 7}));
  const Layer half{"c", Convolution{.out_channels = 8, .kernel = 3, .stride = 2, .padding = 1}};
  EXPECT_EQ(output_shape(half, {3, 10, 7}), (SampleShape{8, 5, 4}));
  const Layer valid{"c", Convolution{.out_channels = 2, .kernel = 5}};
  EXPECT_EQ(output_shape(valid, {1, 5, 9}), (SampleShape{2, 1, 5}));
}

TEST(Layer, PoolingAndFlatteningGiveTheExpectedShapes) {
  EXPECT_EQ(output_shape({"p", MaxPool{.kernel = 2, .stride = 2}}, {4, 5, 6}),
            (SampleShape{4, 2, 3}));
  EXPECT_EQ(output_shape({"p", MaxPool{.kernel = 3, .stride = 2}}, {4, 5, 7}),
            (SampleShape{4, 2, 3}));
  EXPECT_EQ(output_shape({"p", MaxPool{.kernel = 3, .stride = 2, .padding = 1}}, {4, 8, 7}),
            (SampleShape{4, 4, 4}));
  EXPECT_EQ(output_shape({"p", MaxPool{.kernel = 3, .stride = 2, .padding = 1}}, {4, 1, 2}),
            (SampleShape{4, 1, 1}));
  EXPECT_EQ(output_shape({"g", GlobalAveragePool{}}, {4, 5, 6}), (SampleShape{4, 1, 1}));
  EXPECT_EQ(output_shape({"l", Linear{.out_features = 9}}, {4, 5, 6}), (SampleShape{9, 1, 1}));
  EXPECT_EQ(output_shape({"r", Relu{}}, {4, 5, 6}), (SampleShape{4, 5, 6}));
  EXPECT_EQ(output_shape({"n", BatchNorm{}}, {4, 5, 6}), (SampleShape{4, 5, 6}));
}

TEST(Layer, AnInputThatIsTooSmallIsRefusedByName) {
  const Layer convolution{"conv7", Convolution{.out_channels = 2, .kernel = 5, .padding = 1}};
  EXPECT_THAT(message_of([&] {
                output_shape(convolution, {1, 8, 2});
              }),
              AllOf(HasSubstr("conv7"), HasSubstr("5x5"), HasSubstr("8x2")));
  EXPECT_THAT(message_of([] {
                output_shape({"pool3", MaxPool{}}, {1, 1, 8});
              }),
              AllOf(HasSubstr("pool3"), HasSubstr("2x2"), HasSubstr("1x8")));
  EXPECT_THAT(message_of([] {
                output_shape({"pool4", MaxPool{.kernel = 2, .stride = 2, .padding = 2}}, {1, 8, 8});
              }),
              AllOf(HasSubstr("pool4"), HasSubstr("padding 2")));
  EXPECT_THAT(message_of([] { output_shape({"relu", Relu{}}, {0, 1, 1}); }), HasSubstr("relu"));
  EXPECT_THAT(message_of([] {
                output_shape({"l", Linear{.out_features = 0}}, {1, 1, 1});
              }),
              HasSubstr("not 0"));
  EXPECT_THAT(
      message_of([] {
        output_shape({"c", Convolution{.out_channels = 1, .kernel = 3, .stride = 0}}, {1, 4, 4});
      }),
      HasSubstr("stride 0"));
}

Layer down_sampling_block() {
  return {
      "block",
      Residual{
          .body = {{"conv",
                    Convolution{
                        .out_channels = 4, .kernel = 3, .stride = 2, .padding = 1, .bias = false}},
                   {"norm", BatchNorm{}}},
          .shortcut = {
              {"narrow", Convolution{.out_channels = 4, .kernel = 1, .stride = 2, .bias = true}}}}};
}

TEST(Layer, GroupsMustDivideChannelsOnBothSides) {
  const Layer layer{"grouped", Convolution{.out_channels = 6, .padding = 1, .groups = 3}};
  EXPECT_EQ(output_shape(layer, {9, 4, 4}), (SampleShape{6, 4, 4}));
  EXPECT_EQ(parameters(layer, {9, 4, 4})[0].shape, (std::vector<int>{6, 3, 3, 3}));
  for (const int inputs : {8, 1}) {
    EXPECT_THAT(message_of([&] {
                  output_shape(layer, {inputs, 4, 4});
                }),
                testing::AllOf(HasSubstr("grouped"), HasSubstr("3 groups")));
  }
  const Layer odd{"odd", Convolution{.out_channels = 5, .padding = 1, .groups = 3}};
  EXPECT_THAT(message_of([&] { output_shape(odd, {9, 4, 4}); }), HasSubstr("3 groups"));
}

TEST(Layer, DropoutKeepsTheShapeAndItsProbabilityBelowOne) {
  EXPECT_EQ(output_shape({"d", Dropout{0.5}}, {2, 3, 4}), (SampleShape{2, 3, 4}));
  for (const double probability : {1.0, -0.1}) {
    EXPECT_THAT(message_of([&] {
                  output_shape({"drop", Dropout{probability}}, {2, 3, 4});
                }),
                testing::AllOf(HasSubstr("drop"), HasSubstr("[0, 1)")));
  }
}

TEST(Layer, ParametersStandInTheOrderOfTheFlatWeights) {
  const std::vector<Parameter> all = parameters(down_sampling_block(), {2, 6, 6});
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].name, "block.conv.weight");
  EXPECT_EQ(all[0].shape, (std::vector<int>{4, 2, 3, 3}));
  EXPECT_EQ(all[1].name, "block.norm.gamma");
  EXPECT_EQ(all[2].name, "block.norm.beta");
  EXPECT_EQ(all[2].shape, std::vector<int>{4});
  EXPECT_EQ(all[3].name, "block.narrow.weight");
  EXPECT_EQ(all[3].shape, (std::vector<int>{4, 2, 1, 1}));
  EXPECT_EQ(all[4].name, "block.narrow.bias");
  EXPECT_EQ(parameter_count(down_sampling_block(), {2, 6, 6}), 72 + 4 + 4 + 8 + 4);
}

TEST(Layer, LinearFlattensItsInput) {
  const std::vector<Parameter> all =
      parameters({"l", Linear{.out_features = 3}}, SampleShape{2, 4, 5});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].shape, (std::vector<int>{3, 40}));
  EXPECT_EQ(all[1].shape, std::vector<int>{3});
  EXPECT_EQ(parameter_count({"l", Linear{.out_features = 3, .bias = false}}, {2, 4, 5}), 120);
}

TEST(Layer, OnlyBatchNormHasStatistics) {
  EXPECT_EQ(statistic_count({"n", BatchNorm{}}, {5, 3, 3}), 10);
  EXPECT_EQ(statistic_count({"r", Relu{}}, {5, 3, 3}), 0);
  EXPECT_EQ(statistic_count(down_sampling_block(), {2, 6, 6}), 8);
  EXPECT_EQ(parameter_count({"r", Relu{}}, {5, 3, 3}), 0);
}

TEST(Layer, ResidualRefusesBranchesOfDifferentShape) {
  Layer block = down_sampling_block();
  std::get<Residual>(block.kind).shortcut.clear();
  EXPECT_THAT(message_of([&] {
                output_shape(block, {2, 6, 6});
              }),
              AllOf(HasSubstr("block"), HasSubstr("4x3x3"), HasSubstr("2x6x6")));
}

}  // namespace
}  // namespace unlatch::models
