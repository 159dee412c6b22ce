// Transformers learn a text: what they then know is more than how often each byte comes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "exec/data_feed.h"
#include "exec/evaluate.h"
#include "tests/exec/dnn_support.h"
#include "tests/support/small_text.h"

namespace unlatch::exec {
namespace {

/// Least loss of a model that sees nothing of what came before.
double entropy_of_bytes(const models::Dataset& text) {
  std::array<double, 256> counts = {};
  for (const std::uint8_t byte : text.pixels) ++counts[byte];
  double entropy = 0;
  for (const double count : counts) {
    const double share = count / static_cast<double>(text.pixels.size());
    if (count > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

TEST(TransformerLearning, WordsAreLearntFromTheirFirstBytesAndTokensCounted) {
  constexpr int batch = 8, window = 16, steps = 250;
  const models::DataSplit data = testing_support::small_text({window, 1, 1, true});
  const models::Model model = models::make_model(
      "transformer:layers=1,width=32,heads=2,sequence=16", data.train.shape, 256);
  Trainer trainer(model, {static_cast<int>(model.layers.size())},
                  {.micro_batch_size = batch,
                   .optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9"),
                   .seed = 1});
  DataFeed feed(data.train, model.input, batch, 1, 1);
  for (int step = 0; step < steps; ++step) {
    const MicroBatch i{step};
    const Loss loss = trainer.accumulate(feed.input(i), feed.target(i));
    ASSERT_EQ(loss.samples, batch * window);
    trainer.update(0.05);
  }
  const Evaluation found = evaluate(model, joined_weights(trainer.weights), {}, data.test,
                                    {.batch_size = 5, .threads = 2});
  EXPECT_EQ(found.samples, data.test.samples() * window);
  EXPECT_DOUBLE_EQ(found.accuracy, static_cast<double>(found.correct) / found.samples);
  EXPECT_LT(found.loss, entropy_of_bytes(data.test) / 2);
}

}  // namespace
}  // namespace unlatch::exec
