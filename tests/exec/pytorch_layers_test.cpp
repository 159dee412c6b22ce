// The layers of transformers against what PyTorch made of the same numbers
// (tests/torch/transformer_reference.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/exec/dnn_support.h"
#include "tests/support/pytorch_arrays.h"

namespace unlatch::exec {
namespace {

using models::Layer;
using models::Linear;
using testing_support::Arrays;
using testing_support::pytorch_transformers;

constexpr int samples = 2, tokens = 5, width = 6, heads = 2, vocabulary = 7;

Layer layer(auto kind) { return {.name = "layer", .kind = kind}; }

std::vector<Layer> block() {
  const Layer norm = layer(models::LayerNorm{});
  const auto linear = [](int out) { return layer(Linear{.out_features = out}); };
  return {layer(models::Residual{.body = {norm, linear(3 * width),
                                          layer(models::CausalSelfAttention{heads}), linear(width)},
                                 .shortcut = {}}),
          layer(models::Residual{
              .body = {norm, linear(4 * width), layer(models::Gelu{}), linear(width)},
              .shortcut = {}})};
}

/// 1e-4 of the largest value.
void expect_close(std::span<const float> found, const std::vector<float>& expected,
                  const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 1e-6, error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    const double difference = std::abs(double{found[i]} - expected[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  EXPECT_LE(error / largest, 1e-4) << what << ": largest value " << largest;
}

models::Model model_of(std::vector<Layer> layers, int features) {
  return {.name = "case",
          .input = {tokens, 1, features, true},
          .classes = vocabulary,
          .layers = std::move(layers)};
}

void expect_pytorchs_numbers(const std::string& name, std::vector<Layer> layers, int features) {
  SCOPED_TRACE(name);
  const Arrays& expected = pytorch_transformers().at(name);
  const models::Model model = model_of(std::move(layers), features);
  const auto stages = make_dnn_stages(model, ranges_of({static_cast<int>(model.layers.size())}),
                                      {.micro_batch_size = samples});
  DnnStageModule& stage = *stages[0];
  BufferPool pool;
  Workspace workspace;
  const Tensor weights = tensor_of(pool, expected.at("weights"));
  std::unique_ptr<StageModule::Tape> tape;
  const Tensor output = stage.forward(weights, tensor_of(pool, expected.at("input")),
                                      StageModule::Pass::normal, &tape, workspace);
  expect_close(output.as<float>(), expected.at("output"), "output");
  Tensor sums = stage.zero_gradient();
  const Tensor back = stage.backward(weights, *tape, tensor_of(pool, expected.at("gradient")), 1,
                                     true, sums, workspace);
  expect_close(back.as<float>(), expected.at("input_gradient"), "input gradient");
  expect_close(sums.as<float>(), expected.at("weight_gradient"), "weight gradient");
}

TEST(PyTorch, LayersGiveItsNumbers) {
  expect_pytorchs_numbers("layer_norm", {layer(models::LayerNorm{})}, width);
  expect_pytorchs_numbers("gelu", {layer(models::Gelu{})}, width);
  expect_pytorchs_numbers("attention", {layer(models::CausalSelfAttention{heads})}, 3 * width);
  expect_pytorchs_numbers("embedding",
                          {layer(models::Embedding{.vocabulary = vocabulary, .width = width})}, 1);
  expect_pytorchs_numbers("block", block(), width);
}

TEST(PyTorch, AStepOfAWholeNetworkGivesItsLossAndGradients) {
  const Arrays& expected = pytorch_transformers().at("network");
  const models::Model model = models::make_model("transformer:layers=2,width=6,heads=2,sequence=5",
                                                 {1, 1, 1, true}, vocabulary);
  Trainer trainer(model, {2, 3, 2}, {.micro_batch_size = samples});
  BufferPool pool;
  std::size_t first = 0;
  for (Tensor& weights : trainer.weights) {
    const std::size_t count = weights.as<float>().size();
    std::copy_n(expected.at("weights").begin() + static_cast<std::ptrdiff_t>(first), count,
                weights.data<float>());
    first += count;
  }
  ASSERT_EQ(first, expected.at("weights").size());
  const std::vector<float>& targets = expected.at("targets");
  const std::vector<std::int32_t> labels(targets.begin(), targets.end());
  const Loss loss =
      trainer.accumulate(tensor_of(pool, expected.at("input")), tensor_of(pool, labels));
  EXPECT_NEAR(loss.loss, expected.at("loss")[0], 1e-4 * expected.at("loss")[0]);
  EXPECT_EQ(loss.samples, samples * tokens);
  expect_close(Trainer::joined(trainer.gradients), expected.at("weight_gradient"), "gradients");
}

}  // namespace
}  // namespace unlatch::exec
