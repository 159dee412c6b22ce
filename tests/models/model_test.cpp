// Models by name: shapes, sizes, initial weights.
#include "models/model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

TEST(Model, LenetOnMnistHasTheParametersOfLenet5) {
  const Model model = make_model("lenet", {1, 28, 28}, 10);
  EXPECT_EQ(parameter_count(model), 156 + 2416 + 48120 + 10164 + 850);
  EXPECT_EQ(model.shapes()[5], (SampleShape{16, 10, 10}) /* after conv2, relu2 */);
  EXPECT_EQ(model.shapes().back(), (SampleShape{10, 1, 1}));
}

TEST(Model, LenetTakesDigitsAndColourImages) {
  const Model digits = make_model("lenet", {1, 8, 8}, 10);
  EXPECT_EQ(digits.shapes()[6], (SampleShape{16, 2, 2}));
  EXPECT_EQ(parameter_count(digits), 60 + 880 + (64 * 120 + 120) + 10164 + 850);
  const Model colour = make_model("lenet", {3, 32, 32}, 100);
  EXPECT_EQ(colour.shapes()[6], (SampleShape{16, 6, 6}));
  EXPECT_EQ(colour.shapes().back(), (SampleShape{100, 1, 1}));
}

TEST(Model, LenetRefusesImagesThatPoolingUsesUp) {
  EXPECT_THAT(message_of([] {
                make_model("lenet", {1, 3, 3}, 10);
              }),
              AllOf(HasSubstr("pool2"), HasSubstr("1x1")));
}

TEST(Model, Resnet20HasTheParametersOfItsPaper) {
  const Model model = make_model("resnet20", {3, 32, 32}, 10);
  // The table of section 4.2, with 1x1 convolutions on the two shortcuts that change shape.
  const std::int64_t stem = 27 * 16;
  const std::int64_t blocks = 9 * (6 * 16 * 16 + 32 * 16 + 5 * 32 * 32 + 64 * 32 + 5 * 64 * 64);
  const std::int64_t shortcuts = 16 * 32 + 32 * 64;
  const std::int64_t norms = 2 * (7 * 16 + 6 * 32 + 6 * 64 + 32 + 64);
  EXPECT_EQ(parameter_count(model), stem + blocks + shortcuts + norms + 650);
  EXPECT_EQ(parameter_count(model), 272474);
  EXPECT_NEAR(parameter_count(model) / 1e6, 0.27, 0.005);
  EXPECT_EQ(model.layers.size(), 3u + 2 * 9 + 2);
}

TEST(Model, Resnet20HalvesTheImageTwice) {
  const Model model = make_model("resnet20", {3, 32, 32}, 10);
  const std::vector<SampleShape> shapes = model.shapes();
  const std::size_t last = shapes.size() - 1;
  EXPECT_EQ(shapes[last - 3], (SampleShape{64, 8, 8}));
  EXPECT_EQ(shapes[last - 2], (SampleShape{64, 8, 8}));
  EXPECT_EQ(shapes[last - 1], (SampleShape{64, 1, 1}));
  // He et al. count 41 million multiply-adds.
  double flops = 0;
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    flops += static_cast<double>(forward_flops(model.layers[j], shapes[j]));
  }
  EXPECT_NEAR(flops / 2e6, 41, 1.5);
}

TEST(Model, Resnet20KeepsItsShapeOrTakesThatOfTheData) {
  EXPECT_EQ(make_model("resnet20", {1, 28, 28}, 10).input, (SampleShape{3, 32, 32}));
  EXPECT_EQ(make_model("resnet20:input=data", {1, 8, 8}, 10).input, (SampleShape{1, 8, 8}));
  EXPECT_THAT(message_of([] {
                make_model("resnet20", {3, 64, 64}, 10);
              }),
              AllOf(HasSubstr("32x32"), HasSubstr("64x64"), HasSubstr("input=data")));
}

TEST(Model, Resnet20WithoutNormHasBiasesAndNoStatistics) {
  const Model model = make_model("resnet20:norm=no,width=4", {3, 32, 32}, 10);
  const std::vector<SampleShape> shapes = model.shapes();
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    EXPECT_EQ(statistic_count(model.layers[j], shapes[j]), 0);
  }
  EXPECT_EQ(parameters(model.layers[0], shapes[0]).back().name, "conv1.bias");
  const Model with = make_model("resnet20:width=4", {3, 32, 32}, 10);
  EXPECT_EQ(parameters(with.layers[0], shapes[0]).back().name, "conv1.weight");
}

TEST(Model, MlpHasTheHiddenLayersAskedFor) {
  const Model two = make_model("mlp", {1, 8, 8}, 10);
  EXPECT_EQ(parameter_count(two), 64 * 64 + 64 + 64 * 64 + 64 + 640 + 10);
  const Model three = make_model("mlp:hidden=5/6/7", {1, 2, 2}, 3);
  EXPECT_EQ(parameter_count(three), 25 + 36 + 49 + 24);
  EXPECT_EQ(three.layers.size(), 7u);
}

TEST(Model, UnknownNamesKeysAndValuesAreRefused) {
  const auto error = [](std::string_view text) {
    return message_of([&] { make_model(text, {1, 28, 28}, 10); });
  };
  EXPECT_THAT(error("lenett"), AllOf(HasSubstr("'lenett'"), HasSubstr("lenet")));
  EXPECT_THAT(error("mlp:hiden=3"), AllOf(HasSubstr("'hiden'"), HasSubstr("hidden")));
  EXPECT_THAT(error("mlp:hidden=3/0"), HasSubstr("'3/0'"));
  EXPECT_THAT(error("mlp:hidden="), HasSubstr("hidden"));
  EXPECT_THAT(error("lenet:norm=no"), HasSubstr("'norm'"));
  EXPECT_THAT(error("resnet20:norm=perhaps"), HasSubstr("'perhaps'"));
  EXPECT_THAT(error("mlp:64"), HasSubstr("'64'"));
  EXPECT_THAT(message_of([] { make_model("mlp", {1, 8, 8}, 1); }), HasSubstr("not 1"));
}

TEST(Model, UsualInputsAreThoseOfThePapers) {
  EXPECT_EQ(usual_input("resnet20:width=8"), (SampleShape{3, 32, 32}));
  EXPECT_EQ(usual_input("lenet"), (SampleShape{1, 28, 28}));
  EXPECT_THAT(message_of([] { usual_input("resnet"); }), HasSubstr("resnet20"));
}

TEST(InitialWeights, FillEveryParameterWithinItsBound) {
  const Model model = make_model("resnet20", {3, 32, 32}, 10);
  const std::vector<SampleShape> shapes = model.shapes();
  for (int j = 0; j < static_cast<int>(model.layers.size()); ++j) {
    EXPECT_EQ(static_cast<std::int64_t>(initial_weights(model, j, 1).size()),
              parameter_count(model.layers[j], shapes[j]));
    EXPECT_EQ(static_cast<std::int64_t>(initial_statistics(model, j).size()),
              statistic_count(model.layers[j], shapes[j]));
  }
  const std::vector<float> stem = initial_weights(model, 0, 1);
  const float bound = 1 / std::sqrt(27.0F);
  const auto [least, most] = std::minmax_element(stem.begin(), stem.end());
  EXPECT_GE(*least, -bound);
  EXPECT_LE(*most, bound);
  EXPECT_LT(*least, -0.95F * bound);
  EXPECT_GT(*most, 0.95F * bound);
}

TEST(InitialWeights, BatchNormStartsAsTheIdentity) {
  const Model model = make_model("resnet20", {3, 32, 32}, 10);
  const std::vector<float> norm = initial_weights(model, 1, 1);
  EXPECT_TRUE(std::all_of(norm.begin(), norm.begin() + 16, [](float w) { return w == 1; }));
  EXPECT_TRUE(std::all_of(norm.begin() + 16, norm.end(), [](float w) { return w == 0; }));
  const std::vector<float> statistics = initial_statistics(model, 1);
  EXPECT_EQ(statistics[0], 0);
  EXPECT_EQ(statistics[16], 1);
}

TEST(InitialWeights, DifferBetweenLayersPathsAndSeedsOfEqualShape) {
  const Model model = make_model("mlp:hidden=8/8/8", {1, 8, 1}, 8);
  std::set<std::vector<float>> seen;
  for (std::uint64_t seed : {0, 1, 2}) {
    for (int layer : {0, 2, 4, 6}) seen.insert(initial_weights(model, layer, seed));
  }
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_EQ(initial_weights(model, 2, 1), initial_weights(model, 2, 1));

  // Two convolutions of one shape inside one residual, 2,304 weights each and 32 of a norm between.
  const Model resnet = make_model("resnet20", {3, 32, 32}, 10);
  const std::vector<float> block = initial_weights(resnet, 3, 1);
  EXPECT_FALSE(std::equal(block.begin(), block.begin() + 2304, block.begin() + 2304 + 32));
}

TEST(InitialWeights, DoNotDependOnWhatFollowsTheLayer) {
  Model model = make_model("lenet", {1, 28, 28}, 10);
  const std::vector<float> whole = initial_weights(model, 3, 7);
  model.layers.resize(4);
  EXPECT_EQ(initial_weights(model, 3, 7), whole);
  EXPECT_THAT(message_of([&] { initial_weights(model, 4, 7); }), HasSubstr("no layer 4"));
}

}  // namespace
}  // namespace unlatch::models
