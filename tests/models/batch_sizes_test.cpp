// BatchSizes: every sample of an epoch in its place, whatever the sizes.
#include "models/batch_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> sizes_of(const BatchSizes& sizes, int batches) {
  std::vector<int> all;
  for (int n = 0; n < batches; ++n) all.push_back(sizes.batch(n).size);
  return all;
}

/// Batches lie one behind the other from the start of each epoch, parts likewise in each batch.
void expect_in_order(const BatchSizes& sizes, int batches) {
  int epoch = 0, next = 0;
  for (int n = 0; n < batches; ++n) {
    const BatchSizes::Batch batch = sizes.batch(n);
    if (batch.epoch != epoch) {
      EXPECT_EQ(batch.epoch, ++epoch);
      EXPECT_EQ(sizes.batches_of_epochs(epoch), n);
      next = 0;
    }
    EXPECT_EQ(batch.first, next) << "batch " << n;
    next += batch.size;
    EXPECT_LE(next, sizes.samples());
    int in_batch = 0, smallest = batch.size;
    for (int m = 0; m < sizes.micro_batches(); ++m) {
      const BatchSizes::Part part = sizes.part(batch, m);
      EXPECT_EQ(part.first, in_batch);
      EXPECT_GE(part.size, 1);
      EXPECT_LE(part.size, smallest);
      smallest = part.size;
      in_batch += part.size;
    }
    EXPECT_EQ(in_batch, batch.size);
    EXPECT_LE(sizes.part(batch, 0).size - smallest, 1);
  }
}

TEST(BatchSizes, LeavesOutWhatMakesNoWholeBatch) {
  const BatchSizes sizes(10, {.batch_size = 4, .micro_batches = 2});
  EXPECT_THAT(sizes_of(sizes, 4), ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(sizes.batches_per_epoch(), 2);
  EXPECT_THAT(sizes.part_sizes(100), ElementsAre(2));
  expect_in_order(sizes, 9);
}

TEST(BatchSizes, UnevenOnesHoldEverySample) {
  const BatchSizes sizes(11, {.batch_size = 4, .micro_batches = 3, .uneven = true});
  EXPECT_THAT(sizes_of(sizes, 6), ElementsAre(4, 4, 3, 4, 4, 3));
  EXPECT_THAT(sizes.part_sizes(2), ElementsAre(2, 1));
  EXPECT_EQ(sizes.batches_of_epochs(2), 6);
  expect_in_order(sizes, 20);
}

// Two samples do not make up three micro-batches.
TEST(BatchSizes, LeavesOutARestOfTooFewSamples) {
  const BatchSizes sizes(10, {.batch_size = 4, .micro_batches = 3, .uneven = true});
  EXPECT_THAT(sizes_of(sizes, 4), ElementsAre(4, 4, 4, 4));
}

// Epochs of 20 samples: 2 2 4 4 6, then 6 8, then 8 8 each.
TEST(BatchSizes, GrowUpARamp) {
  const BatchRamp ramp = BatchRamp::parse("start=2,step=2,every=2");
  const BatchSizes sizes(20, {.batch_size = 8, .micro_batches = 2, .ramp = ramp});
  EXPECT_THAT(sizes_of(sizes, 11), ElementsAre(2, 2, 4, 4, 6, 6, 8, 8, 8, 8, 8));
  EXPECT_THAT(sizes.part_sizes(3), ElementsAre(2, 1));
  EXPECT_THAT(sizes.part_sizes(100), ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(sizes.batches_of_epochs(1), 5);
  expect_in_order(sizes, 30);
}

/// One batch after the other: as large as the ramp says by then, or what is left of the epoch.
void expect_of_ramp(const BatchSizes& sizes, const Batching& asked, int batches) {
  std::set<int, std::greater<>> parts;
  for (int n = 0; n < batches; ++n) {
    const BatchSizes::Batch batch = sizes.batch(n);
    const int wanted = asked.ramp
                           ? std::min(asked.ramp->start + n / asked.ramp->every * asked.ramp->step,
                                      asked.batch_size)
                           : asked.batch_size;
    EXPECT_EQ(batch.size, std::min(wanted, sizes.samples() - batch.first)) << "batch " << n;
    if (n > 0 && batch.first == 0) {
      const BatchSizes::Batch last = sizes.batch(n - 1);
      EXPECT_LT(sizes.samples() - last.first - last.size, asked.micro_batches) << "left out";
    }
    for (int m = 0; m < asked.micro_batches; ++m) parts.insert(sizes.part(batch, m).size);
  }
  EXPECT_THAT(sizes.part_sizes(batches), testing::ElementsAreArray(parts));
}

TEST(BatchSizes, EveryShapeIsInOrder) {
  for (const int samples : {7, 16, 23}) {
    for (const int batch_size : {3, 6, 7}) {
      for (const int parts : {1, 2, 3}) {
        for (const auto& ramp :
             {std::optional<BatchRamp>(), {BatchRamp{3, 1, 2}}, {BatchRamp{3, 3, 7}}}) {
          SCOPED_TRACE(fmt::format("{} {} {}", samples, batch_size, parts));
          const Batching asked{
              .batch_size = batch_size, .micro_batches = parts, .uneven = true, .ramp = ramp};
          const BatchSizes sizes(samples, asked);
          expect_in_order(sizes, 40);
          for (const int batches : {1, 3, 8, 9, 40}) expect_of_ramp(sizes, asked, batches);
        }
      }
    }
  }
}

TEST(BatchSizes, ARampMayBeLongerThanAnyRun) {
  const BatchSizes sizes(1797, {.batch_size = 1024, .ramp = BatchRamp{1, 1, 1 << 20}});
  EXPECT_EQ(sizes.batch((1 << 20) - 1).size, 1);
  EXPECT_EQ(sizes.batch(1 << 20).size, 2);
  EXPECT_EQ(sizes.batches_of_epochs(1), 1797);
  EXPECT_THAT(sizes.part_sizes(2), ElementsAre(1));
}

TEST(BatchSizes, RefusesWhatCannotBe) {
  const auto error = [](int samples, const Batching& asked) {
    return message_of([&] { BatchSizes(samples, asked); });
  };
  EXPECT_THAT(error(10, {.batch_size = 11}), HasSubstr("11 samples cannot be drawn from 10"));
  EXPECT_THAT(error(10, {.batch_size = 0}), HasSubstr("not 0"));
  EXPECT_THAT(error(10, {.batch_size = 5, .micro_batches = 2}), HasSubstr("multiple of 2"));
  EXPECT_THAT(error(10, {.batch_size = 2, .micro_batches = 3, .uneven = true}),
              HasSubstr("3 micro-batches"));
  EXPECT_THAT(error(10, {.batch_size = 4, .micro_batches = 2, .ramp = BatchRamp{2, 1, 1}}),
              HasSubstr("a ramp's step of 1"));
  EXPECT_THAT(error(10, {.batch_size = 4, .ramp = BatchRamp{5, 1, 1}}), HasSubstr("above"));
  for (const char* text : {"start=1,step=1", "start=0,step=1,every=1", "start=1,step=1,evry=1"}) {
    EXPECT_NE(message_of([&] { BatchRamp::parse(text); }), "") << text;
  }
}

}  // namespace
}  // namespace unlatch::models
