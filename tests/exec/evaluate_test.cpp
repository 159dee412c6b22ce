#include "exec/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "exec/data_feed.h"
#include "schedules/error.h"
#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

models::Dataset random_images(int samples) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (const float value : random_floats(static_cast<std::size_t>(samples) * 192, 9)) {
    pixels.push_back(static_cast<std::uint8_t>(127.5F * (value + 1)));
  }
  for (int s = 0; s < samples; ++s) labels.push_back(s % 4);
  return dataset_of({3, 8, 8}, 4, pixels, labels, 255, 0.5F, 0.25F);
}

struct Trained {
  models::Model model = small_network();
  models::Dataset data = random_images(23);
  std::vector<float> weights;
  std::vector<float> statistics;

  Trained() {
    Trainer trainer(model, {3, 5}, {.micro_batch_size = 8, .optimizer = {}, .seed = 5});
    DataFeed feed(data, model.input, 8, 1, 2);
    for (int batch = 0; batch < 10; ++batch) {
      trainer.accumulate(feed.input(MicroBatch{batch}), feed.target(MicroBatch{batch}));
      trainer.update(0.1);
    }
    weights = joined_weights(trainer.weights);
    statistics = joined_statistics(trainer.stages);
  }

  Evaluation at(int batch_size, int threads) const {
    return evaluate(model, weights, statistics, data,
                    {.batch_size = batch_size, .threads = threads});
  }
};

TEST(Evaluate, CountsEverySampleOnceWhateverTheBatchAndThreads) {
  const Trained trained;
  const Evaluation single = trained.at(1, 1);
  EXPECT_EQ(single.samples, 23);
  EXPECT_DOUBLE_EQ(single.accuracy, single.correct / 23.0);
  for (const int batch : {5, 8, 23, 64}) {  // 5 and 8 leave a partial batch
    const Evaluation found = trained.at(batch, 1);
    EXPECT_EQ(found.samples, 23) << batch;
    EXPECT_EQ(found.correct, single.correct) << batch;
    EXPECT_NEAR(found.loss, single.loss, 1e-5) << batch;
    EXPECT_EQ(trained.at(batch, 3).loss, found.loss) << "the threads change no bit";
  }
}

TEST(Evaluate, NormalisesWithTheRunningStatistics) {
  const models::Model model{
      .name = "norm",
      .input = {2, 1, 1},
      .classes = 2,
      .layers = {{.name = "norm", .kind = models::BatchNorm{.momentum = 0.1, .epsilon = 0}}}};
  const models::Dataset data = dataset_of({2, 1, 1}, 2, {6, 3}, {0});
  const std::vector<float> gamma_beta{1, 1, 0, 0};
  const std::vector<float> statistics{2, 5, 16, 4};  // means, variances
  const Evaluation found = evaluate(model, gamma_beta, statistics, data, {});
  // Logits (6-2)/4 = 1 and (3-5)/2 = -1.
  EXPECT_NEAR(found.loss, std::log(1 + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(found.correct, 1);
}

TEST(Evaluate, RefusesWeightsOfAnotherModel) {
  const Trained trained;
  EXPECT_THROW(evaluate(trained.model, std::vector<float>(3), trained.statistics, trained.data, {}),
               Error);
  EXPECT_THROW(evaluate(trained.model, trained.weights, {}, trained.data, {}), Error);
  EXPECT_THROW(trained.at(0, 1), Error);
  EXPECT_THROW(trained.at(8, 0), Error);
}

}  // namespace
}  // namespace unlatch::exec
