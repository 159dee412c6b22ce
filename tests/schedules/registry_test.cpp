#include "schedules/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/error.h"

namespace unlatch {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_message(std::string_view text, const Shape& shape = {}) {
  return message_of([&] { ScheduleSpec::parse(text).make(shape); });
}

TEST(ScheduleSpec, ResolvesDefaultsFromTheShape) {
  const Options options = ScheduleSpec::parse("dsp").options({.stages = 3});
  EXPECT_EQ(options.word("form"), "queue");
  EXPECT_EQ(options.list("staleness"), (std::vector<int>{4, 2, 0}));
  EXPECT_EQ(options.list("queues"), (std::vector<int>{1, 1, 0}));
}

TEST(ScheduleSpec, ReadsKeysAndLists) {
  const ScheduleSpec spec = ScheduleSpec::parse(" dsp : staleness = 6/3/0 , queues=2/2/0 ");
  EXPECT_EQ(spec.text(), "dsp:staleness=6/3/0,queues=2/2/0");
  EXPECT_EQ(spec.options({.stages = 3}).list("staleness"), (std::vector<int>{6, 3, 0}));
  EXPECT_EQ(ScheduleSpec::parse("fdg:shrink=0.5").options({}).number("shrink"), 0.5);
}

TEST(ScheduleSpec, RunsAMethodWithoutMicroBatchesInOnePiece) {
  EXPECT_EQ(ScheduleSpec::parse("bp").effective({.micro_batches = 8}).micro_batches, 1);
  EXPECT_EQ(ScheduleSpec::parse("1f1b").effective({.micro_batches = 8}).micro_batches, 8);
}

TEST(ScheduleSpec, NamesTheClosestOfAMisspeltWord) {
  EXPECT_EQ(parse_message("1f2b"),
            "unknown schedule '1f2b'. Did you mean '1f1b'? `unlatch schedules` lists them all");
  EXPECT_EQ(parse_message("ddg:frm=mailbox"),
            "schedule 'ddg' has no key 'frm'. Did you mean 'form'? Its keys: form weights");
  EXPECT_EQ(parse_message("ddg:form=lock-step"),
            "ddg: form='lock-step' is not a value of this key. Did you mean 'lockstep'? Valid: "
            "lockstep mailbox");
}

TEST(ScheduleSpec, RefusesAKeyWithoutEffect) {
  int keys = 0;
  for (const Method& method : methods()) {
    for (const Key& key : method.keys) {
      if (!key.only_with) continue;
      SCOPED_TRACE(fmt::format("{}: {}", method.name, key.name));
      ++keys;
      const std::string alone = fmt::format("{}:{}=3", method.name, key.name);
      EXPECT_THAT(parse_message(alone), testing::HasSubstr("has no effect without"));
      EXPECT_THAT(parse_message(fmt::format("{}:{}={}", method.name, key.name, key.default_number)),
                  testing::Not(testing::HasSubstr("has no effect")));
      for (const std::string_view word : key.only_with->words) {
        EXPECT_THAT(parse_message(fmt::format("{},{}={}", alone, key.only_with->key, word)),
                    testing::Not(testing::HasSubstr("has no effect")));
      }
    }
  }
  EXPECT_GE(keys, 11);
  EXPECT_EQ(parse_message("asgd:lambda=0.04"),
            "asgd: lambda=0.04 has no effect without compensation=constant or adaptive");
}

TEST(ScheduleSpec, RefusesNonsense) {
  EXPECT_THAT(parse_message("1f1b:staleness=2"), testing::HasSubstr("synchronous"));
  EXPECT_THAT(parse_message("gpipe:staleness=2"), testing::HasSubstr("synchronous"));
  EXPECT_THAT(parse_message("dsp:"), testing::HasSubstr("key=value"));
  EXPECT_THAT(parse_message("dsp:form=queue,form=lockstep"), testing::HasSubstr("twice"));
  EXPECT_THAT(parse_message("fdg:shrink=0"), testing::HasSubstr("0 < shrink <= 1"));
  EXPECT_THAT(parse_message("fdg:shrink=nan"), testing::HasSubstr("finite"));
  EXPECT_THAT(parse_message("fdg:shrink=1.5"), testing::HasSubstr("0 < shrink <= 1"));
  EXPECT_THAT(parse_message("dsp:staleness=4/2", {.stages = 3}), testing::HasSubstr("3 stages"));
  EXPECT_THAT(parse_message("dsp:staleness=4/2/1", {.stages = 3}),
              testing::HasSubstr("last stage"));
  EXPECT_THAT(parse_message("dsp:staleness=2/4/0", {.stages = 3}), testing::HasSubstr("grow"));
  EXPECT_THAT(parse_message("dsp:staleness=4/-2/0", {.stages = 3}),
              testing::HasSubstr("whole number"));
  EXPECT_THAT(parse_message("dsp:queues=3/1/0", {.stages = 3}),
              testing::HasSubstr("q_0 = m_0 - m_1 - p_0 = 4 - 2 - 3 = -1"));
  EXPECT_THAT(parse_message("dsp:queues=1/1/1", {.stages = 3}), testing::HasSubstr("last stage"));
  EXPECT_THAT(parse_message("dsp:form=lockstep,queues=unbounded", {.stages = 3}),
              testing::HasSubstr("form=queue"));
}

TEST(Schedules, RefuseShapesThatCannotBe) {
  EXPECT_THAT(parse_message("bp", {.stages = 0}), testing::HasSubstr("at least one stage"));
  EXPECT_THAT(parse_message("bp", {.stages = 4, .chunks = 3}),
              testing::HasSubstr("ranks x chunks"));
  EXPECT_THAT(parse_message("gpipe", {.micro_batches = 0}), testing::HasSubstr("micro-batch"));
  EXPECT_THAT(parse_message("gpipe", {.batches = -1}), testing::HasSubstr("batch"));
}

}  // namespace
}  // namespace unlatch
