// The transformer that trains: its layers, counted by hand, and what it refuses.
#include "models/language_model.h"

#include <cmath>

#include "models/layer_facts.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

constexpr SampleShape text{1, 1, 1, true};

Model small() { return make_model("transformer:layers=2,width=6,heads=3,sequence=5", text, 256); }

TEST(LanguageModel, EveryPartOfABlockIsALayerToCutAt) {
  const Model model = small();
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embedding", "block1.attention", "block1.mlp",
                                             "block2.attention", "block2.mlp", "norm", "head"}));
  const std::vector<SampleShape> shapes = model.shapes();
  EXPECT_EQ(shapes.front(), (SampleShape{5, 1, 1, true}));
  for (std::size_t j = 1; j < 7; ++j) EXPECT_EQ(shapes[j], (SampleShape{5, 1, 6, true})) << j;
  EXPECT_EQ(shapes.back(), (SampleShape{5, 1, 256, true}));
}

// Tables (V + T) w, a block 12 w^2 + 13 w, the last norm 2 w, the head w V.
TEST(LanguageModel, HasTheParametersOfGpt2AndAHeadOfItsOwn) {
  EXPECT_EQ(parameter_count(small()), (256 + 5) * 6 + 2 * (12 * 36 + 13 * 6) + 12 + 6 * 256);
  const Model gpt2 =
      make_model("transformer:layers=12,width=768,heads=12,sequence=1024", text, 50257);
  // 124,439,808 with the head tied to the tokens' table.
  EXPECT_EQ(parameter_count(gpt2) - 50257 * 768, 124439808);
}

TEST(LanguageModel, ParametersAreNamedByTheirBlock) {
  const Model model = small();
  std::vector<std::string> names;
  for (const Parameter& p : parameters(model.layers[1], model.shapes()[1])) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "block1.attention.norm.gamma", "block1.attention.norm.beta",
                       "block1.attention.qkv.weight", "block1.attention.qkv.bias",
                       "block1.attention.projection.weight", "block1.attention.projection.bias"}));
  const std::vector<Parameter> tables = parameters(model.layers[0], model.shapes()[0]);
  EXPECT_EQ(tables[0].shape, (std::vector<int>{256, 6}));
  EXPECT_EQ(tables[1].shape, (std::vector<int>{5, 6}));
}

// 24 s w^2 + 4 s^2 w of products a block, biases, norms, GELU, softmax and sums besides.
TEST(LanguageModel, ForwardCountsTheProductsOfABlock) {
  const Model model = small();
  const auto shapes = model.shapes();
  const std::int64_t s = 5, w = 6, pairs = 3 * 15;
  EXPECT_EQ(forward_flops(model.layers[1], shapes[1]) + forward_flops(model.layers[2], shapes[2]),
            24 * s * w * w + 4 * s * s * w       // products
                + s * (3 + 1 + 4 + 1) * w        // biases
                + 2 * 8 * s * w + 5 * 4 * s * w  // norms, GELU
                + 6 * pairs + 2 * s * w);        // softmax, sums
  EXPECT_EQ(backward_flops(model.layers[1], shapes[1]) + backward_flops(model.layers[2], shapes[2]),
            2 * (24 * s * w * w + 4 * s * s * w) + s * 9 * w + 2 * 13 * s * w + 10 * 4 * s * w +
                5 * pairs + 2 * s * w);
  EXPECT_EQ(forward_flops(model.layers.back(), shapes[6]), 2 * s * w * 256);
}

TEST(LanguageModel, TapesHoldInputsAndTheSoftmax) {
  const Model model = small();
  const auto shapes = model.shapes();
  const std::int64_t s = 5, w = 6;
  // Inputs of norm, qkv, heads and projection; mean and variance of the norm; pairs of all heads.
  EXPECT_EQ(tape_bytes(model.layers[1], shapes[1]),
            4 * (s * w + s * w + 3 * s * w + s * w + 2 * s + 3 * s * s));
  EXPECT_EQ(tape_bytes(model.layers[2], shapes[2]), 4 * (s * w * (1 + 1 + 4 + 4) + 2 * s));
  // What the matrices read of input and output gradient.
  EXPECT_EQ(weight_grad_activation_bytes(model.layers[1], shapes[1]), 4 * s * w * (1 + 3 + 1 + 1));
  EXPECT_EQ(weight_grad_activation_bytes(model.layers[0], shapes[0]), 4 * (s + s * w));
}

TEST(LanguageModel, FactsReadNoWholeTable) {
  const ModelFacts facts = facts_of(small(), 4);
  EXPECT_EQ(facts.layers[0].read_parameters, 0);
  EXPECT_EQ(facts.layers[0].parameters, (256 + 5) * 6);
  EXPECT_EQ(facts.layers[1].read_parameters, facts.layers[1].parameters);
}

TEST(LanguageModel, InitialWeightsAreUnitNormsSmallTablesAndPyTorchsMatrices) {
  const Model model = small();
  const std::vector<float> tables = initial_weights(model, 0, 3);
  double squares = 0, largest = 0;
  for (const float w : tables) {
    squares += double{w} * w;
    largest = std::max(largest, std::abs(double{w}));
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(tables.size())), 0.02, 0.001);
  EXPECT_LE(largest, 0.02 * std::sqrt(3));
  const std::vector<float> block = initial_weights(model, 1, 3);
  EXPECT_EQ(std::vector<float>(block.begin(), block.begin() + 6), std::vector<float>(6, 1.0F));
  EXPECT_EQ(std::vector<float>(block.begin() + 6, block.begin() + 12), std::vector<float>(6, 0.0F));
  for (std::size_t i = 12; i < block.size(); ++i) EXPECT_LE(std::abs(block[i]), 1 / std::sqrt(6.0));
  EXPECT_NE(block, initial_weights(model, 3, 3)) << "another block, other numbers";
}

TEST(LanguageModel, RefusesWhatDoesNotGoTogether) {
  const auto made = [](const char* name, const SampleShape& input) {
    return message_of([&] { make_model(name, input, 256); });
  };
  EXPECT_THAT(made("transformer:width=10,heads=4", text), HasSubstr("width 10 does not split"));
  EXPECT_THAT(made("transformer:layer=2", text), HasSubstr("layers"));
  EXPECT_THAT(made("transformer:layers=0", text), HasSubstr("layers"));
  EXPECT_THAT(made("transformer", {1, 28, 28}), HasSubstr("text:FILE"));
  EXPECT_THAT(made("lenet", text), HasSubstr("transformer"));
  EXPECT_THAT(made("transformr", text), HasSubstr("'transformer'"));
}

TEST(LanguageModel, LayersOfSequencesRefuseOthers) {
  const auto shape_of = [](const Layer& layer, const SampleShape& input) {
    return message_of([&] { output_shape(layer, input); });
  };
  EXPECT_THAT(shape_of({"a", CausalSelfAttention{2}}, {4, 1, 9, true}), HasSubstr("2 heads"));
  EXPECT_THAT(shape_of({"a", CausalSelfAttention{1}}, {3, 1, 1}), HasSubstr("a sequence"));
  EXPECT_THAT(shape_of({"n", LayerNorm{}}, {3, 2, 2}), HasSubstr("a sequence"));
  EXPECT_THAT(shape_of({"e", Embedding{}}, {3, 1, 2, true}), HasSubstr("token numbers"));
  EXPECT_THAT(shape_of({"b", BatchNorm{}}, {3, 1, 2, true}), HasSubstr("images"));
  EXPECT_THAT(shape_of({"c", Convolution{}}, {3, 1, 2, true}), HasSubstr("images"));
  EXPECT_EQ(output_shape({"l", Linear{.out_features = 9}}, {4, 1, 6, true}),
            (SampleShape{4, 1, 9, true}));
}

TEST(LanguageModel, UsuallyReadsBytesInWindowsOfItsSequence) {
  EXPECT_EQ(usual_input("transformer:sequence=12"), (SampleShape{12, 1, 1, true}));
  EXPECT_EQ(usual_classes("transformer"), 256);
  EXPECT_EQ(usual_classes("lenet"), 10);
}

}  // namespace
}  // namespace unlatch::models
