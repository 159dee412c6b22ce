// Shapes of transformers against the parameter counts of the published models, and their costs
// against the counts of the papers.
#include "models/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "schedules/error.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

std::string no_file(const std::string& path) { fail("no file {}", path); }

TransformerShape shape_of(std::string_view specification) {
  return make_transformer(specification, no_file);
}

const std::string small = R"({"name": "small", "layers": 2, "width": 8, "heads": 4, "sequence": 16,
                              "vocabulary": 100})";

// OpenAI's and Meta's weights as they are published: every element of every tensor.
TEST(Transformer, HasTheParametersOfThePublishedWeights) {
  const auto parameters = [](std::string_view name) {
    return facts_of(shape_of(name), 2).parameters();
  };
  EXPECT_EQ(parameters("gpt2"), 124'439'808);
  EXPECT_EQ(parameters("gpt2-xl"), 1'557'611'200);
  EXPECT_EQ(parameters("llama2-7b"), 6'738'415'616);
  EXPECT_EQ(parameters("llama2-70b"), 68'976'648'192);
  // Of GPT-3 the paper gives rounded numbers only.
  EXPECT_EQ(std::llround(static_cast<double>(parameters("gpt3-175b")) / 1e9), 175);
  EXPECT_EQ(std::llround(static_cast<double>(parameters("gpt3-6.7b")) / 1e8), 67);
}

// Narayanan et al., SC 2021, appendix: 24 B s h^2 + 4 B s^2 h a layer, and 2 B s h V for the
// logits.
TEST(Transformer, CountsTheProductsOfAGptBlock) {
  for (const char* name : {"gpt2", "gpt2-xl", "gpt3-6.7b", "gpt3-175b"}) {
    SCOPED_TRACE(name);
    const TransformerShape shape = shape_of(name);
    const ModelFacts facts = facts_of(shape, 2);
    const double s = shape.sequence, h = shape.width;
    ASSERT_EQ(facts.layers.size(), static_cast<std::size_t>(shape.layers) + 3);
    const LayerFacts& block = facts.layers[1];
    EXPECT_DOUBLE_EQ(block.forward_flops, s * (24 * h * h + 4 * s * h));
    // Qi et al., ICLR 2024, table 1: B (our I) and W.
    EXPECT_DOUBLE_EQ(block.input_gradient_flops, s * (24 * h * h + 8 * s * h));
    EXPECT_DOUBLE_EQ(block.weight_gradient_flops, s * 24 * h * h);
    const LayerFacts& head = facts.layers.back();
    EXPECT_DOUBLE_EQ(head.forward_flops, 2 * s * h * shape.vocabulary);
    EXPECT_EQ(facts.layers.front().input_gradient_flops, 0);
  }
}

// Narayanan et al., SC 2021, section 5.1, without its recomputation: 72 B s l h^2 and so on instead
// of 96, and 6 B s h V for the logits.
TEST(Transformer, AddsUpToTheOperationsOfATrainingStep) {
  const TransformerShape shape = shape_of("gpt3-175b");
  double flops = 0;
  for (const LayerFacts& layer : facts_of(shape, 2).layers) {
    flops += layer.forward_flops + layer.input_gradient_flops + layer.weight_gradient_flops;
  }
  const double s = shape.sequence, h = shape.width, l = shape.layers, v = shape.vocabulary;
  EXPECT_NEAR(flops / (72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))), 1, 1e-12);
}

// Korthikanti et al. 2022, equation 2 and section 4.3, for 16-bit numbers; what W needs is of Qi et
// al., ICLR 2024, table 1.
TEST(Transformer, KeepsTheActivationsOfKorthikanti) {
  const TransformerShape shape = shape_of("gpt3-175b");
  const ModelFacts facts = facts_of(shape, 2);
  const double s = shape.sequence, h = shape.width, a = shape.heads, v = shape.vocabulary;
  EXPECT_DOUBLE_EQ(facts.layers[1].tape_bytes, s * h * (34 + 5 * a * s / h));
  EXPECT_DOUBLE_EQ(facts.layers[1].weight_grad_activation_bytes, 32 * s * h);
  EXPECT_DOUBLE_EQ(facts.layers[1].output_bytes, 2 * s * h);
  EXPECT_DOUBLE_EQ(facts.layers.front().tape_bytes, s * h);  // the mask of its dropout
  const double last = facts.layers.back().tape_bytes + facts.layers.end()[-2].tape_bytes;
  EXPECT_DOUBLE_EQ(last, 4 * s * h * (1 + v / h));
  EXPECT_DOUBLE_EQ(facts.tape_bytes({.first = 1, .last = 2}), 2 * facts.layers[1].tape_bytes);
}

TEST(Transformer, SelectiveAndFlashDropTheScores) {
  const double s = 1024, h = 768, a = 12;
  const LayerFacts full = facts_of(shape_of("gpt2"), 2).layers[1];
  const LayerFacts selective = facts_of(shape_of("gpt2:attention=selective"), 2).layers[1];
  const LayerFacts flash = facts_of(shape_of("gpt2:attention=flash"), 2).layers[1];
  EXPECT_DOUBLE_EQ(selective.tape_bytes, 34 * s * h);
  EXPECT_DOUBLE_EQ(flash.tape_bytes, 34 * s * h + 4 * a * s);
  // Both products again, or the first.
  EXPECT_DOUBLE_EQ(selective.input_gradient_flops - full.input_gradient_flops, 4 * s * s * h);
  EXPECT_DOUBLE_EQ(flash.input_gradient_flops - full.input_gradient_flops, 2 * s * s * h);
  EXPECT_EQ(selective.moved_bytes, full.moved_bytes);
  EXPECT_DOUBLE_EQ(full.moved_bytes - flash.moved_bytes, 2 * 5 * a * s * s);
}

// A llama block by hand: q and o of h x h, k and v of h x h/4, three MLP matrices of h x 3h.
TEST(Transformer, CountsGroupedQueriesAndGatedMlps) {
  const TransformerShape shape = parse_transformer(
      R"({"name": "x", "layers": 1, "width": 8, "heads": 4, "kv_heads": 1, "mlp_width": 24,
          "mlp": "gated", "norm": "rms", "biases": false, "dropout": false, "sequence": 16,
          "positions": "rotary", "vocabulary": 100, "head": "untied"})",
      "x.json");
  const ModelFacts facts = facts_of(shape, 4);
  const LayerFacts& block = facts.layers[1];
  const int matrices = 2 * 64 + 2 * 16 + 3 * 8 * 24;
  EXPECT_EQ(block.parameters, matrices + 2 * 8);
  EXPECT_EQ(facts.parameters(), 800 + matrices + 16 + 8 + 800);
  EXPECT_EQ(block.forward_flops, 2 * 16 * matrices + 4 * 16 * 16 * 8);
  // Inputs of two norms, of q k v, of o, of the MLP: 8 each; q 8, k and v 2 each; gate, its SiLU,
  // up and their product 24 each; softmax of 4 heads.
  EXPECT_EQ(block.tape_bytes, 4 * 16 * (5 * 8 + 8 + 2 * 2 + 4 * 24 + 4 * 16));
  // Inputs 3 x 8 and 24; gradients of q, o, down 8 each, of k and v 2, of gate and up 24.
  EXPECT_EQ(block.weight_grad_activation_bytes, 4 * 16 * (3 * 8 + 24 + 3 * 8 + 2 * 2 + 2 * 24));
}

TEST(Transformer, TakesASequenceUpToItsLearnedPositions) {
  const ModelFacts half = facts_of(shape_of("gpt2:sequence=512"), 2);
  EXPECT_EQ(half.parameters(), 124'439'808);
  EXPECT_EQ(half.layers[1].output_bytes, 512 * 768 * 2);
  EXPECT_EQ(half.input_bytes, 512 * 8);
  EXPECT_THAT(message_of([] { shape_of("gpt2:sequence=2048"); }),
              HasSubstr("a sequence of 2048 tokens, but it has 1024 learned positions"));
  EXPECT_EQ(shape_of("llama2-7b:sequence=32768").sequence, 32768);
}

TEST(Transformer, ReadsAFileOfItsOwn) {
  const auto read = [](const std::string& path) { return path == "a/s.json" ? small : ""; };
  const TransformerShape shape = make_transformer("a/s.json:sequence=4", read);
  EXPECT_EQ(shape.name, "small");
  EXPECT_EQ(shape.sequence, 4);
  EXPECT_EQ(shape.mlp_width, 32);
  EXPECT_EQ(shape.positions, 16);
  EXPECT_TRUE(shape.tied);
}

TEST(Transformer, NamesThePlaceOfEveryFault) {
  const auto error = [](const std::string& from, const std::string& to) {
    std::string text = small;
    text.replace(text.find(from), from.size(), to);
    return message_of([&] { parse_transformer(text, "s.json"); });
  };
  EXPECT_THAT(error("\"layers\": 2, ", ""), HasSubstr("s.json: there is no 'layers'"));
  EXPECT_THAT(error("\"layers\": 2", "\"layers\": 0"), HasSubstr("s.json, layers: 0 must be"));
  EXPECT_THAT(error("\"heads\": 4", "\"heads\": 3"),
              HasSubstr("s.json, heads: 3 does not divide the width 8"));
  EXPECT_THAT(error("\"heads\": 4", "\"heads\": 4, \"kv_heads\": 3"),
              HasSubstr("s.json, kv_heads: 3 does not divide the heads 4"));
  EXPECT_THAT(error("\"width\"", "\"widht\""), HasSubstr("unknown key 'widht'"));
  EXPECT_THAT(error("\"layers\"", "\"mlp\": \"gates\", \"layers\""),
              HasSubstr("s.json, mlp: 'gates' must be plain or gated. Did you mean 'gated'?"));
  EXPECT_THAT(error("\"layers\"", "\"biases\": 1, \"layers\""),
              HasSubstr("s.json, biases: 1 must be true or false"));
  EXPECT_THAT(error("\"width\": 8", "\"layers\": 8"), HasSubstr("'layers' is given twice"));
  EXPECT_THAT(message_of([] { shape_of("gpt-2"); }), HasSubstr("Did you mean 'gpt2'"));
  EXPECT_THAT(message_of([] { shape_of("gpt2:heads=3"); }), HasSubstr("unknown key 'heads'"));
}

}  // namespace
}  // namespace unlatch::models
