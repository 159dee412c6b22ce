#include "exec/data_feed.h"

#include <gtest/gtest.h>

#include <set>

#include "schedules/error.h"
#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

/// Ten images of 1x1x2 pixels: sample s holds (10 s, 10 s + 1) and has label s.
models::Dataset ten_images() {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (int s = 0; s < 10; ++s) {
    pixels.push_back(static_cast<std::uint8_t>(10 * s));
    pixels.push_back(static_cast<std::uint8_t>(10 * s + 1));
    labels.push_back(s);
  }
  return dataset_of({1, 1, 2}, 10, pixels, labels);
}

std::vector<int> labels_of(DataFeed& feed, int i) {
  const Tensor target = feed.target(MicroBatch{i});
  const auto labels = target.as<std::int32_t>();
  return {labels.begin(), labels.end()};
}

TEST(DataFeed, GivesInputsAndLabelsOfTheSameSamples) {
  const models::Dataset data = ten_images();
  DataFeed feed(data, data.shape, 4, 2, 3);
  for (int i = 0; i < 12; ++i) {
    const Tensor input = feed.input(MicroBatch{i});
    const std::vector<int> labels = labels_of(feed, i);
    ASSERT_EQ(labels.size(), 2U);
    for (std::size_t n = 0; n < 2; ++n) {
      EXPECT_FLOAT_EQ(input.as<float>()[2 * n], 10.0F * static_cast<float>(labels[n]));
      EXPECT_FLOAT_EQ(input.as<float>()[2 * n + 1], 10.0F * static_cast<float>(labels[n]) + 1);
    }
  }
}

TEST(DataFeed, SplitsABatchIntoItsMicroBatches) {
  const models::Dataset data = ten_images();
  DataFeed whole(data, data.shape, 4, 1, 3);
  DataFeed parts(data, data.shape, 4, 4, 3);
  for (int batch = 0; batch < 6; ++batch) {
    std::vector<int> joined;
    for (int m = 0; m < 4; ++m) joined.push_back(labels_of(parts, 4 * batch + m).at(0));
    EXPECT_EQ(joined, labels_of(whole, batch));
  }
}

TEST(DataFeed, DrawsNoSampleTwiceInAnEpochAndDependsOnTheSeed) {
  const models::Dataset data = ten_images();
  DataFeed feed(data, data.shape, 5, 1, 3);
  std::set<int> epoch;
  for (const int batch : {0, 1}) {
    for (const int label : labels_of(feed, batch)) epoch.insert(label);
  }
  EXPECT_EQ(epoch.size(), 10U);
  DataFeed other(data, data.shape, 5, 1, 4);
  EXPECT_NE(labels_of(other, 0), labels_of(feed, 0));
}

// Batches of 4, 4 and 2 in two parts; of 7 in 3, 2 and 2.
TEST(DataFeed, WeighsMicroBatchesByTheirSamples) {
  const models::Dataset data = ten_images();
  DataFeed halves(data, data.shape,
                  models::BatchSizes(10, {.batch_size = 4, .micro_batches = 2, .uneven = true}), 3);
  EXPECT_EQ(labels_of(halves, 5).size(), 1U);
  EXPECT_EQ(halves.share(MicroBatch{5}).weight, 1);
  std::set<int> epoch;
  for (int i = 0; i < 6; ++i) {
    for (const int label : labels_of(halves, i)) epoch.insert(label);
  }
  EXPECT_EQ(epoch.size(), 10U);
  DataFeed thirds(data, data.shape,
                  models::BatchSizes(10, {.batch_size = 7, .micro_batches = 3, .uneven = true}), 3);
  EXPECT_EQ(thirds.share(MicroBatch{1}).first_sample, 3);
  EXPECT_EQ(thirds.share(MicroBatch{2}).first_sample, 5);
  EXPECT_DOUBLE_EQ(thirds.share(MicroBatch{0}).weight, 9.0 / 7);
  EXPECT_DOUBLE_EQ(thirds.share(MicroBatch{2}).weight, 6.0 / 7);
}

TEST(DataFeed, RefusesABatchThatDoesNotSplitEvenly) {
  const models::Dataset data = ten_images();
  EXPECT_THROW(DataFeed(data, data.shape, 5, 2, 0), Error);
  EXPECT_THROW(DataFeed(data, data.shape, 0, 1, 0), Error);
  EXPECT_THROW(DataFeed(data, {3, 1, 1}, 5, 1, 0), Error);
}

}  // namespace
}  // namespace unlatch::exec
