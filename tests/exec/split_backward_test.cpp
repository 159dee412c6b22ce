// Whole networks cut into stages: input and weight gradient apart are the whole backward.
#include <gtest/gtest.h>

#include <string>

#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

constexpr int samples = 4;
constexpr int micro_batches = 3;

/// F of some micro-batches through all stages, then their backwards.
class SplitBackward : public ::testing::TestWithParam<std::string> {
 protected:
  using Tapes = std::vector<std::vector<std::unique_ptr<StageModule::Tape>>>;  // [part][stage]

  SplitBackward() : tapes(micro_batches) {
    for (int i = 0; i < micro_batches; ++i) {
      const auto part = static_cast<unsigned>(i);
      const auto pixels = static_cast<std::size_t>(model.input.elements()) * samples;
      Tensor flow = tensor_of(pool, random_floats(pixels, part));
      tapes[part].resize(trainer.stages.size());
      for (std::size_t k = 0; k < trainer.stages.size(); ++k) {
        flow = trainer.stages[k]->forward(trainer.weights[k], flow, StageModule::Pass::normal,
                                          &tapes[part][k], trainer.workspace);
      }
      errors.push_back(tensor_of(pool, random_floats(flow.bytes() / sizeof(float), 100 + part)));
    }
  }

  std::size_t tape_bytes(std::size_t part) const {
    std::size_t sum = 0;
    for (const auto& tape : tapes[part]) sum += tape->bytes();
    return sum;
  }

  /// Gradient of the output of stage 0 for one micro-batch, by B or by I.
  Tensor go_back(std::size_t part, bool split) {
    Tensor gradient = errors[part];
    for (std::size_t k = trainer.stages.size(); k-- > 0;) {
      DnnStageModule& stage = *trainer.stages[k];
      StageModule::Tape& tape = *tapes[part][k];
      gradient = split ? stage.backward_input(trainer.weights[k], tape, gradient, 1, true,
                                              trainer.workspace)
                       : stage.backward(trainer.weights[k], tape, gradient, 1, true,
                                        trainer.gradients[k], trainer.workspace);
    }
    return gradient;
  }

  const models::Model model = models::make_model(GetParam(), {1, 28, 28}, 10);
  Trainer trainer{model, sizes_of_three(), {.micro_batch_size = samples, .seed = 3}};
  BufferPool pool;
  Tapes tapes;
  std::vector<Tensor> errors;

 private:
  std::vector<int> sizes_of_three() const {
    const auto layers = static_cast<int>(model.layers.size());
    return {layers / 3, layers / 3, layers - 2 * (layers / 3)};
  }
};

TEST_P(SplitBackward, GivesTheBitsOfTheWhole) {
  std::vector<Tensor> whole;
  for (std::size_t i = 0; i < micro_batches; ++i) whole.push_back(go_back(i, false));
  for (std::size_t i = 0; i < micro_batches; ++i) {
    EXPECT_TRUE(std::ranges::equal(go_back(i, true).as<float>(), whole[i].as<float>()));
  }
  for (std::size_t k = 0; k < trainer.stages.size(); ++k) {
    Tensor sums = trainer.stages[k]->zero_gradient();
    for (const auto& tape : tapes) {
      trainer.stages[k]->backward_weight(*tape[k], sums, trainer.workspace);
    }
    EXPECT_TRUE(std::ranges::equal(sums.as<float>(), trainer.gradients[k].as<float>()))
        << "stage " << k;
  }
}

// What goes: the inputs of batch norms, what ReLU and pooling keep and nobody else reads. What
// comes: the output's gradient of every layer with a weight matrix. A fully connected layer by
// itself holds more afterwards.
TEST_P(SplitBackward, HoldsLessAfterTheInputGradient) {
  const std::size_t before = tape_bytes(0);
  go_back(0, true);
  EXPECT_LT(tape_bytes(0), before);
  RecordProperty("before", static_cast<int>(before));
  RecordProperty("after", static_cast<int>(tape_bytes(0)));
  EXPECT_GT(tape_bytes(0), before / 2) << "inputs and output gradients stay for W";
}

INSTANTIATE_TEST_SUITE_P(Networks, SplitBackward,
                         ::testing::Values("lenet", "resnet20:input=data,width=8",
                                           "resnet50:input=data,width=8"),
                         [](const auto& tested) {
                           return tested.param.substr(0, tested.param.find(':'));
                         });

}  // namespace
}  // namespace unlatch::exec
