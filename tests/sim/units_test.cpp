// Units: values as people type them, and the messages for those that make no sense.
#include "sim/units.h"

#include <gmock/gmock.h>

#include <clocale>
#include <limits>

#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Units, ReadDurationsInMillisecondsUnlessAUnitIsGiven) {
  EXPECT_EQ(parse_duration("--forward", "1"), nanoseconds(1'000'000));
  EXPECT_EQ(parse_duration("--forward", "0.1"), nanoseconds(100'000));
  EXPECT_EQ(parse_duration("--forward", "250us"), nanoseconds(250'000));
  EXPECT_EQ(parse_duration("--forward", "1.5 ms"), nanoseconds(1'500'000));
  EXPECT_EQ(parse_duration("--forward", "2s"), nanoseconds(2'000'000'000));
  EXPECT_EQ(parse_duration("--forward", "700ns"), nanoseconds(700));
  EXPECT_EQ(parse_duration("--forward", "1e-3"), nanoseconds(1000));
  EXPECT_EQ(parse_duration("--forward", "0"), nanoseconds(0));
  EXPECT_EQ(parse_duration("--forward", "0.3333333333"), nanoseconds(333'333));
}

TEST(Units, HaveOneRuleForWhatMustBeAboveZero) {
  EXPECT_EQ(parse_positive("--lr", "0.25", 1), 0.25);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* text : {"0", "-0.0", "-1", "x", "nan", "inf", ""}) {
    EXPECT_THAT(error_of([&] { parse_positive("--lr", text, infinity); }),
                HasSubstr(fmt::format("--lr '{}': must be greater than 0 and finite", text)));
  }
  EXPECT_THAT(error_of([] { parse_positive("--lr", "2", 1); }),
              HasSubstr("must be greater than 0 and at most 1"));
  EXPECT_THAT(error_of([] { parse_positive("--lr", "0,1", 1); }), HasSubstr("decimal"));
}

TEST(Units, ReadSizesInBytesUnlessAUnitIsGiven) {
  EXPECT_EQ(parse_size("--activation-size", "1.5GiB"), 1610612736);
  EXPECT_EQ(parse_size("--activation-size", "512MiB"), 536870912);
  EXPECT_EQ(parse_size("--activation-size", "2GB"), 2000000000);
  EXPECT_EQ(parse_size("--activation-size", "700"), 700);
  EXPECT_EQ(parse_size("--activation-size", "3 kB"), 3000);
}

TEST(Units, TellBytesFromBitsAndDecimalFromBinary) {  // case O23
  const double bytes = 512.0 * 1024 * 1024;
  const auto time_ms = [&](std::string_view rate) {
    return bytes / parse_rate("bandwidth", rate) * 1e3;
  };
  EXPECT_NEAR(time_ms("25 GB/s"), 21.475, 5e-4);
  EXPECT_NEAR(time_ms("25 Gb/s"), 171.799, 5e-4);
  EXPECT_NEAR(time_ms("25 GiB/s"), 20.000, 5e-4);
  EXPECT_EQ(parse_rate("bandwidth", "100Gbit/s"), 12.5e9);
  EXPECT_EQ(parse_rate("bandwidth", "100Gb/s"), 12.5e9);
  EXPECT_EQ(parse_rate("bandwidth", "12.5GB/s"), 12.5e9);
  for (const char* wrong : {"25", "25 gbs", "25 gb/s", "25 GB"}) {
    EXPECT_THAT(error_of([&] { parse_rate("bandwidth", wrong); }),
                AllOf(HasSubstr("bandwidth"), HasSubstr(wrong), HasSubstr("Gbit/s"),
                      HasSubstr("GB/s"), HasSubstr("GiB/s")));
  }
  EXPECT_THAT(error_of([] { parse_rate("bandwidth", "0GB/s"); }), HasSubstr("greater than 0"));
  EXPECT_EQ(format_rate(25e9), "25 GB/s (25000000000 bytes a second)");
}

TEST(Units, NameSettingValueAndRuleOfADurationThatMakesNoSense) {  // case O49
  for (const char* wrong : {"-1", "nan", "inf", "", "abc", "1,5", "1e999"}) {
    EXPECT_THAT(error_of([&] { parse_duration("--forward", wrong); }),
                AllOf(HasSubstr("--forward"), HasSubstr(fmt::format("'{}'", wrong))))
        << wrong;
  }
  EXPECT_THAT(error_of([] { parse_duration("--forward", "-1"); }), HasSubstr(">= 0"));
  EXPECT_THAT(error_of([] { parse_duration("--forward", "1,5"); }), HasSubstr("dot"));
  EXPECT_THAT(error_of([] { parse_duration("--forward", "1 hour"); }),
              AllOf(HasSubstr("hour"), HasSubstr("ns, us, ms, s")));
  EXPECT_THAT(error_of([] { parse_duration("--forward", "0.1ns"); }), HasSubstr("nanosecond"));
  EXPECT_THAT(error_of([] { parse_duration("--forward", "1e9s"); }), HasSubstr("at most"));
  EXPECT_THAT(error_of([] { parse_size("--input-size", "9000TiB"); }), HasSubstr("at most"));
}

TEST(Units, ReadWholeNumbersOnly) {  // case O49
  EXPECT_EQ(parse_whole("--microbatches", "8", 1, 100), 8);
  for (const char* wrong : {"0", "-1", "2.5", "", "1000000000000000000000", "8x", "1,5"}) {
    EXPECT_THAT(error_of([&] { parse_whole("--microbatches", wrong, 1, 100); }),
                AllOf(HasSubstr("--microbatches"), HasSubstr("whole number in 1..100")))
        << wrong;
  }
}

TEST(Units, ReadNumbersInTheirRange) {
  EXPECT_EQ(parse_number("--overlap", " 0.25 ", 0, 1), 0.25);
  for (const char* wrong : {"1.1", "-0.1", "nan", "0.5x", ""}) {
    EXPECT_THAT(error_of([&] { parse_number("--overlap", wrong, 0, 1); }), HasSubstr("in 0..1"));
  }
}

TEST(Units, ReadSwitches) {
  for (const char* yes : {"yes", "on", "true", "1"}) EXPECT_TRUE(parse_switch("--drain", yes));
  for (const char* no : {"no", "off", "false", "0"}) EXPECT_FALSE(parse_switch("--drain", no));
  EXPECT_THAT(error_of([] { parse_switch("--drain", "maybe"); }),
              AllOf(HasSubstr("--drain"), HasSubstr("maybe"), HasSubstr("yes or no")));
}

TEST(Units, SplitListsAtCommas) {
  EXPECT_THAT(split_list("1, 2 ,3"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(split_list(""), ElementsAre(""));
  EXPECT_THAT(split_list("1,"), ElementsAre("1", ""));
}

TEST(Units, TakeOneValueForAllOrOneEach) {
  const auto read = [](std::string_view text, int wanted) {
    return parse_list("--forward", text, wanted, "stage", parse_duration);
  };
  EXPECT_THAT(read("2ns", 3), ElementsAre(nanoseconds(2), nanoseconds(2), nanoseconds(2)));
  EXPECT_THAT(read("1ns,2ns", 2), ElementsAre(nanoseconds(1), nanoseconds(2)));
  EXPECT_THAT(read("1ns", 0), ElementsAre());
  EXPECT_THAT(error_of([&] { read("1,5", 3); }),
              AllOf(HasSubstr("--forward '1,5'"), HasSubstr("2 values"),
                    HasSubstr("or 3, one for each stage"), HasSubstr("dot")));
}

TEST(Units, ReadTheSameInEveryLocale) {
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) std::setlocale(LC_ALL, "");
  EXPECT_EQ(parse_duration("--forward", "1.5"), nanoseconds(1'500'000));
  EXPECT_EQ(format_duration(nanoseconds(1'500'000)), "1.5 ms");
  std::setlocale(LC_ALL, "C");
}

TEST(Units, WriteTimesAndSizesForPeople) {
  EXPECT_EQ(format_duration(nanoseconds(250)), "0.00025 ms");
  EXPECT_EQ(format_size(6442450944), "6 GiB");
  EXPECT_EQ(format_size(1610612736), "1.5 GiB");
  EXPECT_EQ(format_size(512), "512 B");
}

}  // namespace
}  // namespace unlatch::sim
