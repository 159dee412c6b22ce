// Reading ahead: the same inputs, in any order of asking, bounded, and failures where they belong.
#include "exec/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "exec/data_feed.h"
#include "schedules/error.h"
#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

/// Input i is the number i; knows how many were asked for.
class CountingFeed : public Feed {
 public:
  Tensor input(MicroBatch i) override {
    if (i.value == fails_at) throw RunError("no input here");
    const Tensor tensor = tensor_of<float>(pool_, {static_cast<float>(i.value)});
    ++made;
    made.notify_all();
    return tensor;
  }
  Tensor target(MicroBatch i) override {
    return tensor_of<float>(pool_, {static_cast<float>(-i.value)});
  }
  Share share(MicroBatch) const override { return {}; }
  /// Until so many were made.
  void wait_for(int count) const {
    for (int now = made; now < count; now = made) made.wait(now);
  }

  int fails_at = -1;
  std::atomic<int> made = 0;

 private:
  BufferPool pool_;
};

float value(const Tensor& tensor) { return tensor.as<float>()[0]; }

TEST(ReadAheadFeed, GivesEveryInputOnce) {
  CountingFeed host;
  ReadAheadFeed feed(host, 100, 4);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(value(feed.input(MicroBatch{i})), i);
    EXPECT_EQ(value(feed.target(MicroBatch{i})), -i);
  }
  EXPECT_EQ(host.made, 100);
}

TEST(ReadAheadFeed, IsAheadByNoMoreThanItIsTold) {
  CountingFeed host;
  ReadAheadFeed feed(host, 100, 4);
  EXPECT_EQ(value(feed.input(MicroBatch{0})), 0);
  host.wait_for(5);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(host.made, 5);
  EXPECT_EQ(value(feed.input(MicroBatch{1})), 1);
  EXPECT_EQ(value(feed.input(MicroBatch{2})), 2);
  host.wait_for(7);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(host.made, 7);
  EXPECT_EQ(feed.waits(), 1);
}

// As a run does that goes on from a checkpoint.
TEST(ReadAheadFeed, BeginsWhereItIsFirstAsked) {
  CountingFeed host;
  ReadAheadFeed feed(host, 100, 4);
  EXPECT_EQ(value(feed.input(MicroBatch{60})), 60);
  host.wait_for(5);
  EXPECT_EQ(value(feed.input(MicroBatch{61})), 61);
  EXPECT_EQ(value(feed.input(MicroBatch{64})), 64);
  EXPECT_EQ(feed.waits(), 1);
}

TEST(ReadAheadFeed, MakesWhatIsAskedForInAnyOrder) {
  CountingFeed host;
  ReadAheadFeed feed(host, 40, 3);
  for (int i = 39; i >= 0; --i) EXPECT_EQ(value(feed.input(MicroBatch{i})), i);
  EXPECT_EQ(host.made, 40);
  EXPECT_EQ(value(feed.input(MicroBatch{7})), 7) << "and again";
}

TEST(ReadAheadFeed, ServesSeveralAtOnce) {
  CountingFeed host;
  ReadAheadFeed feed(host, 300, 4);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 300; i += 3) wrong += value(feed.input(MicroBatch{i})) != i ? 1 : 0;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(host.made, 300);
}

TEST(ReadAheadFeed, ThrowsWhereTheInputIsAskedFor) {
  CountingFeed host;
  host.fails_at = 2;
  ReadAheadFeed feed(host, 10, 4);
  EXPECT_EQ(value(feed.input(MicroBatch{0})), 0);
  EXPECT_EQ(value(feed.input(MicroBatch{1})), 1);
  EXPECT_THROW(feed.input(MicroBatch{2}), RunError);
  EXPECT_EQ(value(feed.input(MicroBatch{3})), 3);
}

TEST(ReadAheadFeed, GoesAwayWithInputsLeft) {
  CountingFeed host;
  { ReadAheadFeed feed(host, 1000, 5); }
  EXPECT_LE(host.made, 5);
}

/// Samples of one pixel a row and column: what comes depends on the epoch and the sample, and on
/// nothing else.
TEST(DataFeed, ChangesSamplesAnewEachEpochWhateverTheParts) {
  const models::DataSplit data = models::load_data("synthetic:1x6x6,samples=24");
  const auto fed = [&](int micro_batches, bool ahead, const models::Augmentation& augmentation) {
    DataFeed feed(data.train, {1, 6, 6}, 8, micro_batches, 11, augmentation);
    ReadAheadFeed front(feed, 6 * micro_batches, 2);
    std::vector<float> all;
    for (int i = 0; i < 6 * micro_batches; ++i) {
      const Tensor input = ahead ? front.input(MicroBatch{i}) : feed.input(MicroBatch{i});
      all.insert(all.end(), input.as<float>().begin(), input.as<float>().end());
    }
    return all;
  };
  const models::Augmentation augmentation{.crop = 2, .flip = true};
  const std::vector<float> whole = fed(1, false, augmentation);
  EXPECT_EQ(fed(4, false, augmentation), whole);
  EXPECT_EQ(fed(2, true, augmentation), whole);
  EXPECT_NE(fed(1, false, {}), whole);
}

}  // namespace
}  // namespace unlatch::exec
