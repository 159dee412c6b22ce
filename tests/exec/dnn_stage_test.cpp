// What schedules rely on: the cut, the replay and the order of calls change no bit.
#include "exec/dnn_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "exec/data_feed.h"
#include "exec/evaluate.h"
#include "models/dataset.h"
#include "schedules/error.h"
#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

using models::BatchNorm;
using models::Layer;
using models::Linear;
using Pass = StageModule::Pass;

constexpr int samples = 4;
const DnnRun run_of_four{.micro_batch_size = samples,
                         .optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9"),
                         .seed = 7};

Tensor images(BufferPool& pool, unsigned seed, int count = samples) {
  return tensor_of(pool, random_floats(static_cast<std::size_t>(count) * 3 * 8 * 8, seed));
}

Tensor labels(BufferPool& pool, int count = samples) {
  std::vector<std::int32_t> values;
  for (int n = 0; n < count; ++n) values.push_back(n % 4);
  return tensor_of(pool, values);
}

/// Weights and statistics after a few batches.
std::vector<float> trained(const std::vector<int>& sizes) {
  Trainer trainer(small_network(), sizes, run_of_four);
  BufferPool pool;
  for (unsigned batch = 0; batch < 4; ++batch) {
    trainer.accumulate(images(pool, batch), labels(pool));
    trainer.update(0.1);
  }
  std::vector<float> all = Trainer::joined(trainer.weights);
  const std::vector<float> statistics = trainer.statistics();
  all.insert(all.end(), statistics.begin(), statistics.end());
  return all;
}

TEST(DnnStage, TheCutChangesNoBit) {
  const std::vector<float> whole = trained({8});
  EXPECT_TRUE(std::ranges::none_of(whole, [](float w) { return std::isnan(w); }));
  for (const auto& sizes : std::vector<std::vector<int>>{
           {4, 4}, {1, 7}, {7, 1}, {3, 2, 3}, {2, 4, 2}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_EQ(trained(sizes), whole) << "stages: " << ::testing::PrintToString(sizes);
  }
}

TEST(DnnStage, ReplayGivesTheBitsOfTheForwardAndLeavesTheStatistics) {
  Trainer trainer(small_network(), {8}, run_of_four);
  DnnStageModule& stage = *trainer.stages[0];
  BufferPool pool;
  const Tensor input = images(pool, 1);
  const std::vector<float> before = trainer.statistics();
  const Tensor first =
      stage.forward(trainer.weights[0], input, Pass::normal, nullptr, trainer.workspace);
  const std::vector<float> after = trainer.statistics();
  EXPECT_NE(after, before);

  std::unique_ptr<StageModule::Tape> tape;
  const Tensor again =
      stage.forward(trainer.weights[0], input, Pass::replay, &tape, trainer.workspace);
  EXPECT_TRUE(std::ranges::equal(first.as<float>(), again.as<float>()));
  EXPECT_EQ(trainer.statistics(), after);
}

TEST(DnnStage, RunningStatisticsFollowTheBatchWithItsMomentum) {
  const models::Model model{.name = "norm",
                            .input = {1, 2, 1},
                            .classes = 2,
                            .layers = {{.name = "norm", .kind = BatchNorm{.momentum = 0.25}},
                                       {.name = "linear", .kind = Linear{.out_features = 2}}}};
  Trainer trainer(model, {2}, {.micro_batch_size = 2});
  BufferPool pool;
  const Tensor input = tensor_of(pool, std::vector<float>{1, 2, 3, 6});
  trainer.stages[0]->forward(trainer.weights[0], input, Pass::normal, nullptr, trainer.workspace);
  // Mean 3; unbiased variance (4 + 1 + 0 + 9) / 3.
  const auto statistics = trainer.statistics();
  EXPECT_FLOAT_EQ(statistics[0], 0.25F * 3);
  EXPECT_FLOAT_EQ(statistics[1], 0.75F + 0.25F * 14 / 3);
}

TEST(DnnStage, BackwardTakesTheWeightsPassedInAndTheActivationsOfTheTape) {
  const models::Model model{
      .name = "linear",
      .input = {2, 1, 1},
      .classes = 2,
      .layers = {{.name = "linear", .kind = Linear{.out_features = 2, .bias = false}}}};
  Trainer trainer(model, {1}, {.micro_batch_size = 1});
  DnnStageModule& stage = *trainer.stages[0];
  BufferPool pool;
  Tensor weights = tensor_of(pool, std::vector<float>{1, 2, 3, 4});
  std::unique_ptr<StageModule::Tape> tape;
  const Tensor output = stage.forward(weights, tensor_of(pool, std::vector<float>{5, 6}),
                                      Pass::normal, &tape, trainer.workspace);
  EXPECT_THAT(output.as<float>(), ::testing::ElementsAre(17, 39));

  std::ranges::copy(std::vector<float>{10, 20, 30, 40}, weights.data<float>());  // an update
  Tensor sums = stage.zero_gradient();
  const Tensor back = stage.backward(weights, *tape, tensor_of(pool, std::vector<float>{1, 2}), 1,
                                     true, sums, trainer.workspace);
  EXPECT_THAT(back.as<float>(), ::testing::ElementsAre(70, 100));
  EXPECT_THAT(sums.as<float>(), ::testing::ElementsAre(5, 6, 10, 12));
}

TEST(DnnStage, BatchNormGoesBackWithTheGammaPassedInAndTheStatisticsOfItsForward) {
  const models::Model model{.name = "norm",
                            .input = {1, 2, 2},
                            .classes = 2,
                            .layers = {{.name = "norm", .kind = BatchNorm{}}}};
  Trainer trainer(model, {1}, {.micro_batch_size = 2});
  DnnStageModule& stage = *trainer.stages[0];
  BufferPool pool;
  std::unique_ptr<StageModule::Tape> tape;
  stage.forward(trainer.weights[0], tensor_of(pool, random_floats(8, 1)), Pass::normal, &tape,
                trainer.workspace);
  const Tensor gradient = tensor_of(pool, random_floats(8, 2));
  Tensor sums = stage.zero_gradient();
  const Tensor once =
      stage.backward(trainer.weights[0], *tape, gradient, 1, true, sums, trainer.workspace);
  Tensor doubled = pool.copy_of(trainer.weights[0]);
  doubled.as<float>()[0] *= 2;  // gamma
  Tensor other = stage.zero_gradient();
  const Tensor twice = stage.backward(doubled, *tape, gradient, 1, true, other, trainer.workspace);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(twice.as<float>()[i], 2 * once.as<float>()[i]);
  }
  EXPECT_TRUE(std::ranges::equal(sums.as<float>(), other.as<float>()));
}

TEST(DnnStage, MicroBatchesAddUpToTheMeanLossOfTheBatch) {
  const models::Model model =
      models::make_model("lenet", {1, 8, 8}, 4);  // without batch norm the parts are independent
  const auto pixels = random_floats(8 * 64, 3);
  BufferPool pool;
  Trainer whole(model, {11}, {.micro_batch_size = 8});
  const Loss loss = whole.accumulate(tensor_of(pool, pixels), labels(pool, 8));

  Trainer halves(model, {11}, {.micro_batch_size = 4});
  double sum = 0;
  for (const int part : {0, 1}) {
    const std::vector<float> half(pixels.begin() + part * 256, pixels.begin() + part * 256 + 256);
    sum += halves.accumulate(tensor_of(pool, half), labels(pool, 4), 0.5).loss;
  }
  EXPECT_NEAR(sum / 2, loss.loss, 1e-6);
  const auto expected = Trainer::joined(whole.gradients);
  EXPECT_THAT(Trainer::joined(halves.gradients),
              ::testing::Pointwise(::testing::FloatNear(1e-6F), expected));
}

TEST(DnnStage, TheLossGradientAgreesWithFiniteDifferences) {
  Trainer trainer(small_network(), {8}, run_of_four);
  BufferPool pool;
  const Tensor target = labels(pool);
  std::vector<float> logits = random_floats(samples * 4, 5);
  Tensor gradient;
  trainer.stages[0]->loss(tensor_of(pool, logits), target, 0.25, &gradient, trainer.workspace);
  const auto loss_at = [&] {
    return trainer.stages[0]
        ->loss(tensor_of(pool, logits), target, 1, nullptr, trainer.workspace)
        .loss;
  };
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float kept = logits[i];
    logits[i] = kept + 0.0078125F;  // 2^-7: the step itself is exact
    const double up = loss_at();
    logits[i] = kept - 0.0078125F;
    const double down = loss_at();
    logits[i] = kept;
    EXPECT_NEAR(gradient.as<float>()[i], 0.25 * (up - down) / 0.015625, 2e-6);
  }
}

TEST(DnnStage, ForwardBesideReplayAndBackwardGivesTheSameBits) {
  const models::Model model = small_network();
  BufferPool pool;
  const Tensor input = images(pool, 1);
  const Tensor gradient = tensor_of(pool, random_floats(samples * 4, 2));
  Trainer trainer(model, {8}, run_of_four);
  DnnStageModule& stage = *trainer.stages[0];
  const Tensor weights = trainer.weights[0];

  const auto there_and_back = [&](Workspace& workspace) {
    std::unique_ptr<StageModule::Tape> tape;
    stage.forward(weights, input, Pass::replay, &tape, workspace);
    Tensor sums = stage.zero_gradient();
    stage.backward(weights, *tape, gradient, 1, true, sums, workspace);
    return std::vector<float>(sums.as<float>().begin(), sums.as<float>().end());
  };
  const std::vector<float> alone = there_and_back(trainer.workspace);
  const Tensor output = stage.forward(weights, input, Pass::replay, nullptr, trainer.workspace);

  std::vector<std::vector<float>> beside(5);
  std::vector<Tensor> outputs(10);
  std::jthread replay([&] {
    Workspace workspace;
    for (auto& result : beside) result = there_and_back(workspace);
  });
  std::jthread forward([&] {
    Workspace workspace;
    for (auto& result : outputs) {
      result = stage.forward(weights, input, Pass::normal, nullptr, workspace);
    }
  });
  replay.join();
  forward.join();
  for (const auto& result : beside) EXPECT_EQ(result, alone);
  for (const Tensor& result : outputs) {
    EXPECT_TRUE(std::ranges::equal(result.as<float>(), output.as<float>()));
  }
}

TEST(DnnStage, ScalesTheGradientBeforeAnythingElse) {
  BufferPool pool;
  Trainer trainer(small_network(), {8}, run_of_four);
  DnnStageModule& stage = *trainer.stages[0];
  std::unique_ptr<StageModule::Tape> tape;
  stage.forward(trainer.weights[0], images(pool, 1), Pass::normal, &tape, trainer.workspace);
  const std::vector<float> values = random_floats(samples * 4, 2);
  std::vector<float> halved = values;
  for (float& value : halved) value *= 0.5F;
  const Tensor given = tensor_of(pool, values);
  Tensor sums = stage.zero_gradient();
  Tensor other = stage.zero_gradient();
  stage.backward(trainer.weights[0], *tape, given, 0.5, true, sums, trainer.workspace);
  stage.backward(trainer.weights[0], *tape, tensor_of(pool, halved), 1, true, other,
                 trainer.workspace);
  EXPECT_TRUE(std::ranges::equal(sums.as<float>(), other.as<float>()));
  EXPECT_TRUE(std::ranges::equal(given.as<float>(), values))
      << "the caller's gradient is read only";
}

TEST(DnnStage, UpdateStepsTheWeightsAndClearsTheGradient) {
  BufferPool pool;
  Trainer trainer(small_network(), {8}, {.micro_batch_size = samples});
  trainer.accumulate(images(pool, 1), labels(pool));
  const auto before = Trainer::joined(trainer.weights);
  const auto gradient = Trainer::joined(trainer.gradients);
  trainer.update(0.5);
  const auto after = Trainer::joined(trainer.weights);
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_FLOAT_EQ(after[i], before[i] - 0.5F * gradient[i]);
  }
  EXPECT_THAT(Trainer::joined(trainer.gradients), ::testing::Each(0.0F));
}

TEST(DnnStage, RefusesStagesThatLeaveLayersOut) {
  EXPECT_THROW(make_dnn_stages(small_network(), ranges_of({3, 3}), run_of_four), Error);
  EXPECT_THROW(make_dnn_stages(small_network(), ranges_of({3, 9}), run_of_four), Error);
}

TEST(DnnStage, LearnsTheDigits) {
  const models::DataSplit data = models::load_data("digits");
  const models::Model model = models::make_model("lenet", data.train.shape, data.train.classes);
  DataFeed feed(data.train, model.input, 32, 1, 1);
  Trainer trainer(model, {5, 6},
                  {.micro_batch_size = 32,
                   .optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9"),
                   .seed = 1});
  double first = 0;
  for (int batch = 0; batch < 300; ++batch) {
    const Loss loss =
        trainer.accumulate(feed.input(MicroBatch{batch}), feed.target(MicroBatch{batch}));
    trainer.update(0.05);
    if (batch == 0) first = loss.loss;
  }
  const Evaluation found =
      evaluate(model, joined_weights(trainer.weights), {}, data.test, {.batch_size = 64});
  EXPECT_NEAR(first, std::log(10.0), 0.3);
  EXPECT_LT(found.loss, 0.25);
  EXPECT_GT(found.accuracy, 0.93);
}

}  // namespace
}  // namespace unlatch::exec
