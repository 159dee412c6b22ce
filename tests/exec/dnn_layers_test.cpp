// Every kind of layer against the plain double implementation: outputs and all gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/exec/dnn_support.h"
#include "tests/exec/reference_network.h"

namespace unlatch::exec {
namespace {

using models::BatchNorm;
using models::Convolution;
using models::Dropout;
using models::GlobalAveragePool;
using models::Layer;
using models::Linear;
using models::MaxPool;
using models::Relu;
using models::Residual;
using models::SampleShape;
using testing::Numbers;

struct NetworkCase {
  std::string name;
  SampleShape input;
  std::vector<Layer> layers;  ///< a linear layer follows, so that the output is in plain rows
};

void PrintTo(const NetworkCase& c, std::ostream* out) { *out << c.name; }

Layer layer(auto kind) { return {.name = "layer", .kind = kind}; }

std::vector<NetworkCase> cases() {
  const auto conv = [](int out, int kernel, int stride, int padding, bool bias = true) {
    return layer(Convolution{out, kernel, stride, padding, bias});
  };
  const auto grouped = [](int out, int groups, int stride, bool bias) {
    return layer(Convolution{out, 3, stride, 1, bias, groups});
  };
  const auto drop = [](double probability) { return layer(Dropout{probability, 3}); };
  const Layer norm = layer(BatchNorm{});
  const Layer relu = layer(Relu{});
  return {
      {"Linear", {5, 1, 1}, {}},
      {"LinearWithoutBias", {3, 4, 4}, {layer(Linear{.out_features = 7, .bias = false})}},
      {"LinearOnImages", {3, 5, 4}, {layer(Linear{.out_features = 9}), relu}},
      {"ConvolutionOfOneChannel", {1, 12, 12}, {conv(6, 5, 1, 2)}},
      {"ConvolutionOfThreeChannels", {3, 9, 9}, {conv(16, 3, 1, 1, false)}},
      {"ConvolutionOfOddChannels", {1, 12, 12}, {conv(6, 5, 1, 0), relu, conv(10, 3, 1, 1)}},
      {"ConvolutionsWithStride", {3, 11, 11}, {conv(8, 3, 2, 1), conv(16, 1, 2, 0, false)}},
      {"ConvolutionOfLargeKernelAndStride", {3, 17, 14}, {conv(16, 7, 2, 3, false)}},
      {"ConvolutionOfOneChannelWithLargeKernel", {1, 15, 16}, {conv(10, 7, 2, 3), relu}},
      {"ConvolutionOfPlainWideInput", {16, 6, 6}, {conv(8, 3, 1, 1)}},
      {"GroupsOfWholeBlocks", {32, 7, 7}, {grouped(64, 2, 1, true)}},
      {"GroupsOfWholeBlocksBehindAnImage",
       {3, 9, 9},
       {conv(32, 3, 1, 1), relu, grouped(32, 2, 2, false), norm}},
      {"GroupsThatAreNoBlocks", {6, 7, 6}, {grouped(9, 3, 1, true), relu, conv(8, 3, 1, 1)}},
      {"GroupsOfBlocksAndOfNone", {3, 8, 8}, {conv(16, 3, 1, 1), grouped(20, 4, 2, true)}},
      {"AGroupAChannel", {3, 8, 8}, {conv(24, 3, 1, 1, false), grouped(24, 24, 1, false)}},
      {"ThreeChannelsInThreeGroups", {3, 8, 8}, {grouped(6, 3, 1, true)}},
      {"DropoutOnVectors", {40, 1, 1}, {layer(Linear{.out_features = 50}), drop(0.3)}},
      {"DropoutOnPlainInput", {3, 6, 7}, {drop(0.5), conv(8, 3, 1, 1), relu}},
      {"DropoutOnOddChannels", {3, 6, 6}, {conv(10, 3, 1, 1), relu, drop(0.4)}},
      {"DropoutInAResidual",
       {3, 6, 6},
       {conv(16, 3, 1, 1),
        layer(Residual{.body = {conv(16, 3, 1, 1), relu, drop(0.2), conv(16, 3, 1, 1)},
                       .shortcut = {}})}},
      {"BatchNormOnPlainInput", {3, 6, 6}, {norm}},
      {"BatchNormOnVectors", {12, 1, 1}, {layer(Linear{.out_features = 10}), norm, relu}},
      {"BatchNormOnBlocks", {3, 6, 6}, {conv(16, 3, 1, 1, false), norm, relu}},
      {"BatchNormOnOddChannels", {3, 6, 6}, {conv(10, 3, 1, 1), norm, relu, conv(8, 3, 1, 1)}},
      {"ReluFirst", {2, 5, 5}, {relu}},
      {"MaxPoolOnPlainInput", {3, 8, 8}, {layer(MaxPool{2, 2})}},
      {"MaxPoolOverlapping", {1, 11, 11}, {conv(6, 3, 1, 1), layer(MaxPool{3, 2})}},
      {"MaxPoolOnBlocks", {1, 8, 8}, {conv(16, 3, 1, 1), relu, layer(MaxPool{2, 2})}},
      {"MaxPoolPaddedOnPlainInput", {3, 9, 8}, {layer(MaxPool{3, 2, 1})}},
      {"MaxPoolPaddedOnBlocks",
       {3, 10, 9},
       {conv(16, 3, 1, 1, false), norm, relu, layer(MaxPool{3, 2, 1}), conv(8, 3, 1, 1)}},
      {"MaxPoolPaddedWidely", {1, 7, 5}, {conv(10, 3, 1, 1), layer(MaxPool{5, 1, 4})}},
      {"MaxPoolPaddedTwoByTwo", {2, 6, 7}, {layer(MaxPool{2, 2, 1})}},
      {"MaxPoolWindowBeyondTheImage", {3, 2, 1}, {layer(MaxPool{3, 2, 1})}},
      {"AverageOnPlainInput", {3, 7, 7}, {layer(GlobalAveragePool{})}},
      {"AverageOnBlocks", {3, 7, 7}, {conv(16, 3, 1, 1), layer(GlobalAveragePool{})}},
      {"AverageOnOddChannels", {3, 7, 7}, {conv(10, 3, 1, 1), layer(GlobalAveragePool{})}},
      {"ResidualWithIdentity",
       {3, 8, 8},
       {conv(8, 3, 1, 1),
        layer(Residual{.body = {conv(8, 3, 1, 1, false), norm, relu, conv(8, 3, 1, 1), norm},
                       .shortcut = {}}),
        relu}},
      {"ResidualWithShortcut",
       {3, 8, 8},
       {conv(8, 3, 1, 1), relu,
        layer(Residual{.body = {conv(16, 3, 2, 1, false), norm, relu, conv(16, 3, 1, 1), norm},
                       .shortcut = {conv(16, 1, 2, 0, false), norm}}),
        relu, layer(GlobalAveragePool{})}},
      {"Bottleneck",
       {3, 9, 9},
       {conv(16, 3, 1, 1),
        layer(Residual{.body = {conv(8, 1, 1, 0, false), norm, relu, conv(8, 3, 2, 1, false), norm,
                                relu, conv(32, 1, 1, 0, false), norm},
                       .shortcut = {conv(32, 1, 2, 0, false), norm}}),
        relu}},
      {"ResidualFirst", {3, 6, 6}, {layer(Residual{.body = {conv(3, 3, 1, 1)}, .shortcut = {}})}},
      {"ResidualEndingInRelu",
       {8, 6, 6},
       {layer(Residual{.body = {relu, conv(8, 3, 1, 1), relu}, .shortcut = {relu}})}},
      {"ResidualInResidual",
       {3, 6, 6},
       {conv(8, 3, 1, 1),
        layer(Residual{.body = {conv(8, 3, 1, 1), layer(Residual{.body = {relu, conv(8, 1, 1, 0)},
                                                                 .shortcut = {norm}})},
                       .shortcut = {conv(8, 1, 1, 0)}})}},
      {"LinearOnTokens", {6, 1, 5, true}, {layer(Linear{.out_features = 7}), relu}},
      {"Embedding", {7, 1, 1, true}, {layer(models::Embedding{.vocabulary = 9, .width = 6})}},
      {"LayerNorm", {5, 1, 12, true}, {layer(models::LayerNorm{})}},
      {"LayerNormOfALargeEpsilon", {4, 1, 7, true}, {layer(models::LayerNorm{0.5})}},
      {"Gelu", {6, 1, 9, true}, {layer(models::Gelu{})}},
      {"GeluOnImages", {3, 6, 6}, {conv(10, 3, 1, 1), layer(models::Gelu{})}},
      {"AttentionOfOneHead", {5, 1, 18, true}, {layer(models::CausalSelfAttention{1})}},
      {"AttentionOfThreeHeads", {9, 1, 36, true}, {layer(models::CausalSelfAttention{3})}},
      {"AttentionOfOneToken", {1, 1, 12, true}, {layer(models::CausalSelfAttention{2})}},
      {"TransformerBlock",
       {10, 1, 1, true},
       {layer(models::Embedding{.vocabulary = 11, .width = 8}),
        layer(Residual{
            .body = {layer(models::LayerNorm{}), layer(Linear{.out_features = 24}),
                     layer(models::CausalSelfAttention{2}), layer(Linear{.out_features = 8})},
            .shortcut = {}}),
        layer(Residual{.body = {layer(models::LayerNorm{}), layer(Linear{.out_features = 32}),
                                layer(models::Gelu{}), layer(Linear{.out_features = 8})},
                       .shortcut = {}}),
        layer(models::LayerNorm{})}},
  };
}

Numbers doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

/// The largest difference, relative to the largest value expected.
void expect_close(std::span<const float> found, std::span<const double> expected,
                  const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 1e-6;
  double error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double difference = std::abs(found[i] - expected[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  EXPECT_LT(error / largest, 1e-4) << what << ": largest value " << largest;
}

class EveryLayer : public ::testing::TestWithParam<NetworkCase> {
 protected:
  static constexpr int samples = 3;

  static models::Model tested_model() {
    models::Model model{.name = "case", .input = GetParam().input, .classes = 4, .layers = {}};
    model.layers = GetParam().layers;
    model.layers.push_back({.name = "last", .kind = Linear{.out_features = 4}});
    return model;
  }
  Tensor random_input(unsigned seed) {
    std::vector<float> values =
        random_floats(static_cast<std::size_t>(model.input.elements()) * samples, seed);
    if (const auto* table = std::get_if<models::Embedding>(&model.layers.front().kind)) {
      for (float& x : values) x = std::floor((x + 1) / 2 * static_cast<float>(table->vocabulary));
    }
    return tensor_of(pool, values);
  }
  Tensor random_gradient(unsigned seed) {
    return tensor_of(pool, random_floats(std::size_t{4} * samples * model.input.rows(), seed));
  }

  const models::Model model = tested_model();
  const std::vector<std::unique_ptr<DnnStageModule>> stages = make_dnn_stages(
      model, ranges_of({static_cast<int>(model.layers.size())}), {.micro_batch_size = samples});
  DnnStageModule& stage = *stages[0];
  BufferPool pool;
  Workspace workspace;
  const Tensor weights = tensor_of(pool, random_floats(stage.parameters(), 1));
};

TEST_P(EveryLayer, AgreesWithThePlainImplementationInDouble) {
  const Tensor input = random_input(2);
  const Tensor gradient = random_gradient(3);
  const Numbers w = doubles(weights.as<float>());
  const auto expected =
      testing::reference(model.layers, model.input, samples, w.data(), doubles(input.as<float>()));
  Numbers weight_gradient(w.size(), 0.0);
  const Numbers input_gradient =
      expected.backward(doubles(gradient.as<float>()), weight_gradient.data());

  std::unique_ptr<StageModule::Tape> tape;
  const Tensor output = stage.forward(weights, input, StageModule::Pass::normal, &tape, workspace);
  expect_close(output.as<float>(), expected.output, "output");
  Tensor sums = stage.zero_gradient();
  const Tensor back = stage.backward(weights, *tape, gradient, 1, true, sums, workspace);
  expect_close(sums.as<float>(), weight_gradient, "weight gradient");
  expect_close(back.as<float>(), input_gradient, "input gradient");

  // A second micro-batch adds to the gradient; the input's gradient may be left out.
  const Tensor none = stage.backward(weights, *tape, gradient, 0.5, false, sums, workspace);
  EXPECT_TRUE(none.empty());
  for (double& g : weight_gradient) g *= 1.5;
  expect_close(sums.as<float>(), weight_gradient, "sum of two weight gradients");

  const Tensor again = stage.forward(weights, input, StageModule::Pass::replay, nullptr, workspace);
  EXPECT_TRUE(std::ranges::equal(again.as<float>(), output.as<float>()))
      << "without a tape the numbers are the same";
}

TEST_P(EveryLayer, SplitBackwardGivesTheBitsOfTheWhole) {
  constexpr unsigned parts = 3;
  std::vector<std::unique_ptr<StageModule::Tape>> tapes(parts);
  Tensor whole = stage.zero_gradient();
  Tensor sums = stage.zero_gradient();
  for (unsigned i = 0; i < parts; ++i) {
    const bool wants_input = i < 2;
    const double scale = i == 1 ? 0.3 : 1;
    const Tensor gradient = random_gradient(10 + i);
    stage.forward(weights, random_input(i), StageModule::Pass::normal, &tapes[i], workspace);
    const Tensor expected =
        stage.backward(weights, *tapes[i], gradient, scale, wants_input, whole, workspace);
    const Tensor found =
        stage.backward_input(weights, *tapes[i], gradient, scale, wants_input, workspace);
    EXPECT_EQ(found.empty(), !wants_input);
    EXPECT_TRUE(std::ranges::equal(found.as<float>(), expected.as<float>())) << "input gradient";
  }
  EXPECT_TRUE(std::ranges::all_of(sums.as<float>(), [](float g) { return g == 0; }));
  for (const auto& tape : tapes) stage.backward_weight(*tape, sums, workspace);
  EXPECT_TRUE(std::ranges::equal(sums.as<float>(), whole.as<float>())) << "weight gradient";
}

/// One image through a pool by itself: its output and the gradient of its input.
struct Pooled {
  std::vector<float> output;
  std::vector<float> back;

  Pooled(const MaxPool& pool, const SampleShape& shape, const std::vector<float>& image,
         const std::vector<float>& gradient) {
    const models::Model model{
        .name = "pool", .input = shape, .classes = 4, .layers = {layer(pool)}};
    const auto stage = std::move(make_dnn_stages(model, ranges_of({1}), {})[0]);
    BufferPool buffers;
    Workspace workspace;
    std::unique_ptr<StageModule::Tape> tape;
    const Tensor weights = stage->initial_weights();
    const Tensor result = stage->forward(weights, tensor_of(buffers, image),
                                         StageModule::Pass::normal, &tape, workspace);
    output.assign(result.as<float>().begin(), result.as<float>().end());
    Tensor none = stage->zero_gradient();
    const Tensor input_gradient =
        stage->backward(weights, *tape, tensor_of(buffers, gradient), 1, true, none, workspace);
    back.assign(input_gradient.as<float>().begin(), input_gradient.as<float>().end());
  }
};

// 3x3 windows two apart on 4x4 pixels; the first ones hang over the upper and the left edge.
TEST(MaxPoolByHand, PaddingIsNoValueAndEqualValuesGiveTheGradientToTheFirst) {
  const Pooled found({.kernel = 3, .stride = 2, .padding = 1}, {1, 4, 4},
                     {-5, -7, -7, -9,  //
                      -6, -5, -3, -3,  //
                      -8, -3, -3, -3,  //
                      -8, -3, -4, -9},
                     {1, 10, 100, 1000});
  EXPECT_EQ(found.output, (std::vector<float>{-5, -3, -3, -3}));
  EXPECT_EQ(found.back, (std::vector<float>{1, 0, 0, 0,     //
                                            0, 0, 1010, 0,  //
                                            0, 100, 0, 0,   //
                                            0, 0, 0, 0}));
}

TEST(MaxPoolByHand, ANumberThatIsNoneWinsAndInfinityIsAMaximum) {
  const float none = std::nanf("");
  const Pooled found({.kernel = 2, .stride = 1, .padding = 1}, {1, 1, 2}, {-INFINITY, none},
                     {1, 10, 100, 1, 10, 100});
  EXPECT_EQ(found.output[0], -INFINITY);
  EXPECT_TRUE(std::isnan(found.output[1]));
  EXPECT_EQ(found.back, (std::vector<float>{2, 220}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryLayer, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace unlatch::exec
