// Facts of layers that can be trained: what of them the roofline takes.
#include "models/layer_facts.h"

#include <gtest/gtest.h>

namespace unlatch::models {
namespace {

// 2 -> 3 with biases, ReLU, 3 -> 2. A multiply-add counts 2.
TEST(LayerFacts, SplitsBackwardIntoItsGradients) {
  const ModelFacts facts = facts_of(make_model("mlp:hidden=3", {1, 2, 1}, 2), 4);
  ASSERT_EQ(facts.layers.size(), 3U);
  EXPECT_EQ(facts.layers[0].forward_flops, 12 + 3);
  EXPECT_EQ(facts.layers[0].input_gradient_flops, 0) << "nobody wants the gradient of the data";
  EXPECT_EQ(facts.layers[0].weight_gradient_flops, (24 + 3) / 2.0);
  EXPECT_EQ(facts.layers[1].input_gradient_flops, 3);
  EXPECT_EQ(facts.layers[1].weight_gradient_flops, 0);
  EXPECT_EQ(facts.layers[2].input_gradient_flops, (24 + 2) / 2.0);
  EXPECT_EQ(facts.parameters(), 2 * 3 + 3 + 3 * 2 + 2);
  EXPECT_EQ(facts.input_bytes, 2 * 4);
  EXPECT_EQ(facts.layers[0].moved_bytes, (2 + 3) * 4);
}

// F moves 2 + 3, 3 + 3 and 3 + 2 floats, and so do the gradients that there are.
TEST(LayerFacts, WorkCountsMovedBytesAsFlops) {
  const ModelFacts facts = facts_of(make_model("mlp:hidden=3", {1, 2, 1}, 2), 4);
  EXPECT_EQ(forward_work(facts), (std::vector<double>{15 + 8 * 20, 3 + 8 * 24, 14 + 8 * 20}));
  EXPECT_EQ(training_work(facts), (std::vector<double>{15 + 13.5 + 2 * 8 * 20, 3 + 3 + 2 * 8 * 24,
                                                       14 + 13 + 13 + 3 * 8 * 20}));
}

// Of 2 channels of 4x4: two convolutions and a batch norm that keep the shape, the sum of two.
TEST(LayerFacts, MovesWhatEveryLayerOfAResidualMoves) {
  const Convolution same{.out_channels = 2, .kernel = 3, .stride = 1, .padding = 1};
  const Residual residual{.body = {{"a", same}, {"b", BatchNorm{}}, {"c", same}}, .shortcut = {}};
  EXPECT_EQ(moved_elements({"r", residual}, {2, 4, 4}), (3 * 2 + 3) * 32);
}

// The output of ReLU is the input of the next layer, kept once where both are on one stage.
TEST(LayerFacts, CountsATensorOfTwoLayersOnce) {
  const ModelFacts facts = facts_of(make_model("mlp:hidden=3", {1, 2, 1}, 2), 2);
  EXPECT_EQ(facts.tape_bytes({.first = 0, .last = 2}), 2 * (2 + 3));
  EXPECT_EQ(facts.tape_bytes({.first = 0, .last = 1}), 2 * (2 + 3));
  EXPECT_EQ(facts.tape_bytes({.first = 1, .last = 2}), 2 * 3);
}

}  // namespace
}  // namespace unlatch::models
