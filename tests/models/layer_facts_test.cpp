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
  EXPECT_EQ(training_flops(facts), (std::vector<double>{12 + 3 + 13.5, 3 + 3, 12 + 2 + 13 + 13}));
  EXPECT_EQ(facts.parameters(), 2 * 3 + 3 + 3 * 2 + 2);
  EXPECT_EQ(facts.input_bytes, 2 * 4);
  EXPECT_EQ(facts.layers[0].moved_bytes, (2 + 3) * 4);
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
