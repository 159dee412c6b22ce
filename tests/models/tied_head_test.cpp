// Tied heads: what counts once and what is a copy, in numbers counted by hand; what is refused.
#include "models/tied_head.h"

#include "models/layer_facts.h"
#include "models/model_file.h"
#include "models/parameter_tensors.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

constexpr SampleShape text{1, 1, 1, true};
constexpr std::size_t table = 256 * 6;

Model small() {
  return make_model("transformer:layers=1,width=6,heads=3,sequence=5,tied=yes", text, 256);
}

// GPT-2: 124,439,808 (models/transformer_test.cpp has its sources).
TEST(TiedHead, HasTheParametersOfGpt2) {
  const Model gpt2 =
      make_model("transformer:layers=12,width=768,heads=12,sequence=1024,tied=yes", text, 50257);
  EXPECT_EQ(parameter_count(gpt2), 124439808);
  EXPECT_EQ(facts_of(gpt2, 4).parameters(), 124439808);
}

TEST(TiedHead, CostsWhatAHeadOfItsOwnCosts) {
  const Model model = small();
  const ModelFacts facts = facts_of(model, 4);
  const ModelFacts apart = facts_of(untied(model), 4);
  EXPECT_TRUE(facts.layers.back().tied);
  EXPECT_FALSE(apart.layers.back().tied);
  EXPECT_EQ(facts.layers.back().parameters, static_cast<std::int64_t>(table));
  EXPECT_EQ(facts.parameters() + static_cast<std::int64_t>(table), apart.parameters());
  EXPECT_EQ(training_work(facts), training_work(apart));
}

TEST(TiedHead, HasACopyOfTheTableOnAStageWithoutTheEmbedding) {
  const Model model = small();  // embedding, attention, MLP, norm, head
  const std::vector<float> whole = initial_weights(model, StageRange{0, 4}, 3);
  EXPECT_EQ(whole.size(), static_cast<std::size_t>(parameter_count(model)));
  EXPECT_EQ(tied_floats(model, {0, 4}), 0);
  EXPECT_EQ(tied_floats(model, {1, 2}), 0);
  for (int first = 1; first <= 4; ++first) {
    const StageRange last{first, 4};
    EXPECT_EQ(tied_floats(model, {0, first - 1}), static_cast<std::int64_t>(table));
    EXPECT_EQ(tied_floats(model, last), static_cast<std::int64_t>(table));
    const std::vector<float> weights = initial_weights(model, last, 3);
    EXPECT_TRUE(std::equal(weights.end() - table, weights.end(), whole.begin())) << first;
    const std::vector<ParameterTensor> tensors = parameter_tensors(model, last);
    EXPECT_EQ(tensors.back().first, weights.size() - table);
    EXPECT_EQ(tensors.back().elements, table);
    EXPECT_TRUE(tensors.back().adapted) << "as the embedding's";
    std::vector<float> all = initial_weights(model, StageRange{0, first - 1}, 3);
    all.insert(all.end(), weights.begin(), weights.end());
    drop_copied_table(model, all);
    EXPECT_EQ(all, whole) << first;
  }
}

TEST(TiedHead, StartsAsTheModelWithAHeadOfItsOwnStarts) {
  std::vector<float> apart = initial_weights(untied(small()), StageRange{0, 4}, 3);
  apart.resize(apart.size() - table);
  EXPECT_EQ(initial_weights(small(), StageRange{0, 4}, 3), apart);
}

TEST(TiedHead, IsWrittenToAModelFileAndReadBack) {
  const Model again = parse_model(model_json(small()), "file");
  EXPECT_TRUE(has_tied_head(again));
  EXPECT_EQ(model_json(again), model_json(small()));
  EXPECT_THAT(model_json(untied(small())), testing::Not(HasSubstr("tied")));
}

std::string refused(const std::string& layers) {
  return message_of(
      [&] { parse_model(R"({"name": "m", "tokens": 5, "layers": [)" + layers + "]}", "m.json"); });
}

const std::string embedding =
    R"({"name": "e", "kind": "embedding", "vocabulary": 8, "width": 4}, )";

TEST(TiedHead, FitsTheEmbeddingThatItIsTiedTo) {
  const std::string head = R"({"name": "h", "kind": "linear", "features": 8, "tied": true})";
  parse_model(R"({"name": "m", "tokens": 5, "layers": [)" + embedding + head + "]}", "m.json");
  EXPECT_THAT(
      refused(embedding + R"({"name": "h", "kind": "linear", "features": 9, "tied": true})"),
      HasSubstr("m.json: layer h: it gives 9 features for 4"));
  EXPECT_THAT(refused(embedding + R"({"name": "w", "kind": "linear", "features": 6}, )" + head),
              HasSubstr("it gives 8 features for 6"));
  EXPECT_THAT(refused(embedding + head + R"(, {"name": "r", "kind": "relu"})"),
              HasSubstr("only the last layer of a model can be tied, which is r"));
  EXPECT_THAT(refused(R"({"name": "g", "kind": "gelu"}, )" + head),
              HasSubstr("an embedding, which must be the first layer, but that is g"));
  EXPECT_THAT(refused(embedding + R"({"name": "h", "kind": "linear", "features": 8, "bias": true,)"
                                  R"( "tied": true})"),
              HasSubstr("layer h: a tied layer has no bias"));
  EXPECT_THAT(refused(embedding + R"({"name": "b", "kind": "residual", "body": [)" +
                      R"({"name": "h", "kind": "linear", "features": 4, "tied": true}]})"),
              HasSubstr("layer b: a layer inside a block cannot be tied"));
}

}  // namespace
}  // namespace unlatch::models
