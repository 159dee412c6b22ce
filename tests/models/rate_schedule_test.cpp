// Learning rates by batch, and their parser.
#include "models/rate_schedule.h"

#include <cmath>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

/// Epochs of so many batches.
BatchSizes epochs_of(int batches) { return {batches, {.batch_size = 1, .micro_batches = 1}}; }

TEST(RateSchedule, LinearAndCosineFallToNothingOverTheRun) {
  const RateSchedule linear = RateSchedule::parse("linear", 0.2);
  EXPECT_DOUBLE_EQ(linear.at_batch(0, 10, epochs_of(5)), 0.2);
  EXPECT_DOUBLE_EQ(linear.at_batch(5, 10, epochs_of(5)), 0.1);
  EXPECT_NEAR(linear.at_batch(9, 10, epochs_of(5)), 0.02, 1e-16);
  EXPECT_EQ(linear.at_batch(12, 10, epochs_of(5)), 0);
  const RateSchedule cosine = RateSchedule::parse("cosine", 0.2);
  EXPECT_DOUBLE_EQ(cosine.at_batch(0, 9, epochs_of(5)), 0.2);
  EXPECT_NEAR(cosine.at_batch(3, 9, epochs_of(5)), 0.15, 1e-15);
  EXPECT_NEAR(cosine.at_batch(9, 9, epochs_of(5)), 0, 1e-16);
}

TEST(RateSchedule, StepDropsAfterTheEpochsGiven) {
  const RateSchedule step = RateSchedule::parse("step:at=2/3,factor=0.5", 0.4);
  EXPECT_EQ(step.at_batch(19, 100, epochs_of(10)), 0.4);
  EXPECT_EQ(step.at_batch(20, 100, epochs_of(10)), 0.2);
  EXPECT_EQ(step.at_batch(30, 100, epochs_of(10)), 0.1);
  EXPECT_EQ(step.at_batch(99, 100, epochs_of(10)), 0.1);
  EXPECT_EQ(RateSchedule::parse("constant", 0.3).at_batch(99, 100, epochs_of(10)), 0.3);
}

TEST(RateSchedule, PolynomialFallsFasterAtFirst) {
  const RateSchedule square = RateSchedule::parse("polynomial:power=2,end=0.1", 0.4);
  EXPECT_DOUBLE_EQ(square.at_batch(0, 10, epochs_of(5)), 0.4);
  EXPECT_DOUBLE_EQ(square.at_batch(5, 10, epochs_of(5)), 0.04 + 0.36 * 0.25);
  EXPECT_NEAR(square.at_batch(10, 10, epochs_of(5)), 0.04, 1e-16);
  const RateSchedule line = RateSchedule::parse("polynomial", 0.4);
  EXPECT_DOUBLE_EQ(line.at_batch(3, 10, epochs_of(5)),
                   RateSchedule::parse("linear", 0.4).at_batch(3, 10, epochs_of(5)));
}

TEST(RateSchedule, EveryKindWarmsUpThenBegins) {
  for (const char* kind : {"constant:", "linear:", "cosine:", "polynomial:power=2,"}) {
    SCOPED_TRACE(kind);
    const RateSchedule rises = RateSchedule::parse(std::string(kind) + "warmup=4,start=0.2", 0.5);
    EXPECT_DOUBLE_EQ(rises.at_batch(0, 12, epochs_of(3)), 0.1);
    EXPECT_DOUBLE_EQ(rises.at_batch(1, 12, epochs_of(3)), 0.2);
    EXPECT_DOUBLE_EQ(rises.at_batch(3, 12, epochs_of(3)), 0.4);
    EXPECT_DOUBLE_EQ(rises.at_batch(4, 12, epochs_of(3)), 0.5);
    const RateSchedule in_epochs =
        RateSchedule::parse(std::string(kind) + "warmup_epochs=1.2,start=0.2", 0.5);
    for (int batch = 0; batch < 12; ++batch) {
      EXPECT_EQ(in_epochs.at_batch(batch, 12, epochs_of(3)),
                rises.at_batch(batch, 12, epochs_of(3)));
    }
  }
  const RateSchedule linear = RateSchedule::parse("linear:warmup=4", 0.5);
  EXPECT_EQ(linear.at_batch(0, 12, epochs_of(3)), 0);
  EXPECT_DOUBLE_EQ(linear.at_batch(8, 12, epochs_of(3)), 0.25)
      << "half of the batches after the warm-up";
  EXPECT_EQ(linear.at_batch(12, 12, epochs_of(3)), 0);
  const RateSchedule step = RateSchedule::parse("step:at=2,factor=0.5,warmup=4", 0.4);
  EXPECT_EQ(step.at_batch(5, 12, epochs_of(3)), 0.4);
  EXPECT_EQ(step.at_batch(6, 12, epochs_of(3)), 0.2) << "epochs are those of the run";
}

TEST(RateSchedule, NonsenseIsRefused) {
  const auto error = [](std::string_view text, double rate = 0.1) {
    return message_of([&] { RateSchedule::parse(text, rate); });
  };
  EXPECT_THAT(error("linaer"), HasSubstr("linear"));
  EXPECT_THAT(error("linear:at=3"), HasSubstr("'at'"));
  EXPECT_THAT(error("step"), HasSubstr("step:at=60/80"));
  EXPECT_THAT(error("step:at=80/60"), HasSubstr("rise"));
  EXPECT_THAT(error("step:at=0"), HasSubstr("'0'"));
  EXPECT_THAT(error("step:at=1,factor=-1"), HasSubstr("'-1'"));
  EXPECT_THAT(error("constant", 0), HasSubstr("not 0"));
  EXPECT_THAT(error("constant", std::nan("")), HasSubstr("nan"));
  EXPECT_THAT(error("polynomial:power=-1"), HasSubstr("'-1'"));
  EXPECT_THAT(error("cosine:power=2"), HasSubstr("'power'"));
  EXPECT_THAT(error("linear:warmup=0"), HasSubstr("'0'"));
  EXPECT_THAT(error("linear:warmup=5,warmup_epochs=1"), HasSubstr("give one of them"));
  EXPECT_THAT(error("linear:start=0.5"), HasSubstr("warmup=500"));
  EXPECT_THAT(message_of([] { RateSchedule{}.at_batch(-1, 10, epochs_of(1)); }), HasSubstr("-1"));
}

}  // namespace
}  // namespace unlatch::models
