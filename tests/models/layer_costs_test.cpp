// FLOPs and kept bytes of small layers, counted by hand.
#include "models/layer.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

TEST(LayerCosts, ConvolutionCountsTwoAMultiplyAdd) {
  // 3 outputs of 4x4, each 2 channels x 3x3 multiply-adds and one bias.
  const Layer layer{"c", Convolution{.out_channels = 3, .kernel = 3, .padding = 1}};
  EXPECT_EQ(forward_flops(layer, {2, 4, 4}), 48 * 18 * 2 + 48);
  EXPECT_EQ(backward_flops(layer, {2, 4, 4}), 2 * 48 * 18 * 2 + 48);
}

/// 4 outputs of 5x5, each 3 channels of its group x 3x3.
TEST(LayerCosts, AGroupedConvolutionSeesOneGroup) {
  const Layer layer{"c", Convolution{.out_channels = 4, .padding = 1, .bias = false, .groups = 2}};
  EXPECT_EQ(forward_flops(layer, {6, 5, 5}), 100 * 27 * 2);
  EXPECT_EQ(backward_flops(layer, {6, 5, 5}), 100 * 27 * 4);
  EXPECT_EQ(tape_bytes(layer, {6, 5, 5}), 4 * 150);
  EXPECT_EQ(parameter_count(layer, {6, 5, 5}), 4 * 27);
}

TEST(LayerCosts, DropoutMultipliesAndKeepsAByteANumber) {
  const Layer layer{"d", Dropout{0.5}};
  EXPECT_EQ(forward_flops(layer, {2, 3, 3}), 18);
  EXPECT_EQ(backward_flops(layer, {2, 3, 3}), 18);
  EXPECT_EQ(tape_bytes(layer, {2, 3, 3}), 18);
  EXPECT_EQ(weight_grad_activation_bytes(layer, {2, 3, 3}), 0);
}

TEST(LayerCosts, LinearIsOneProductForwardAndTwoBackward) {
  const Layer layer{"l", Linear{.out_features = 5, .bias = false}};
  EXPECT_EQ(forward_flops(layer, {7, 1, 1}), 70);
  EXPECT_EQ(backward_flops(layer, {7, 1, 1}), 140);
}

TEST(LayerCosts, PoolingComparesAndRoutes) {
  EXPECT_EQ(forward_flops({"p", MaxPool{}}, {2, 4, 4}), 8 * 3);
  EXPECT_EQ(backward_flops({"p", MaxPool{}}, {2, 4, 4}), 8);
  const Layer padded{"p", MaxPool{.kernel = 3, .stride = 2, .padding = 1}};
  EXPECT_EQ(forward_flops(padded, {2, 4, 4}), 8 * 8);
  EXPECT_EQ(backward_flops(padded, {2, 4, 4}), 8);
  EXPECT_EQ(tape_bytes(padded, {2, 4, 4}), 8);
  EXPECT_EQ(forward_flops({"g", GlobalAveragePool{}}, {2, 4, 4}), 32);
}

Layer block(std::vector<Layer> shortcut) {
  return {"b", Residual{.body = {{"c", Convolution{.out_channels = 2, .kernel = 1, .bias = false}},
                                 {"r", Relu{}}},
                        .shortcut = std::move(shortcut)}};
}

TEST(LayerCosts, ResidualAddsItsBranchesAndTheSum) {
  const SampleShape input{2, 3, 3};
  const std::int64_t products = 18 * 2;
  EXPECT_EQ(forward_flops(block({}), input), 2 * products + 18 + 18);
  EXPECT_EQ(backward_flops(block({}), input), 4 * products + 18 + 18);
}

TEST(LayerCosts, TapeHoldsEveryTensorOnce) {
  EXPECT_EQ(tape_bytes({"c", Convolution{.out_channels = 9}}, {2, 3, 3}), 4 * 18);
  EXPECT_EQ(tape_bytes({"p", MaxPool{}}, {2, 4, 4}), 8);
  EXPECT_EQ(tape_bytes({"g", GlobalAveragePool{}}, {2, 4, 4}), 0);
  EXPECT_EQ(tape_bytes(block({}), {2, 3, 3}), 4 * (18 + 18));
  // The second convolution reads the tensor that the first one keeps.
  EXPECT_EQ(tape_bytes(block({{"s", Convolution{.out_channels = 2, .kernel = 1}}}), {2, 3, 3}),
            4 * (18 + 18));
}

TEST(LayerCosts, WhatAReluKeepsIsTheNextLayersInput) {
  const Layer convolution{"c", Convolution{.out_channels = 2, .kernel = 1}};
  const Layer relu{"r", Relu{}};
  const auto of_chain = [](const std::vector<Layer>& layers) {
    return tape_bytes(layers, {2, 4, 4});
  };
  EXPECT_EQ(of_chain({convolution, relu}), 4 * (32 + 32));
  EXPECT_EQ(of_chain({convolution, relu, convolution}), 4 * (32 + 32));
  EXPECT_EQ(of_chain({convolution, relu, block({}), relu}), 4 * (32 + 32 + 32 + 32));
  EXPECT_EQ(of_chain({convolution, relu, {"p", MaxPool{}}}), 4 * (32 + 32) + 8);
}

TEST(LayerCosts, WeightGradientNeedsInputAndOutputGradientOfEveryMatrix) {
  EXPECT_EQ(weight_grad_activation_bytes({"c", Convolution{.out_channels = 9}}, {2, 3, 3}),
            4 * (18 + 9));
  EXPECT_EQ(weight_grad_activation_bytes({"l", Linear{.out_features = 5}}, {7, 1, 1}), 4 * (7 + 5));
  EXPECT_EQ(weight_grad_activation_bytes({"r", Relu{}}, {2, 4, 4}), 0);
  EXPECT_EQ(weight_grad_activation_bytes(block({}), {2, 3, 3}), 4 * (18 + 18));
  // Both branches read one input.
  const Layer convolution{"s", Convolution{.out_channels = 2, .kernel = 1}};
  EXPECT_EQ(weight_grad_activation_bytes(block({convolution}), {2, 3, 3}), 4 * (18 + 18 + 18));
  // Both end with a matrix, and read one output gradient too.
  const Layer alike{"b", Residual{.body = {convolution}, .shortcut = {convolution}}};
  EXPECT_EQ(weight_grad_activation_bytes(alike, {2, 3, 3}), 4 * (18 + 18));
}

}  // namespace
}  // namespace unlatch::models
