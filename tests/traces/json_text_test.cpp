// Exact decimals and JSON strings.
#include "traces/json_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace unlatch {
namespace {

TEST(MsText, IsTheExactDecimalOfNanoseconds) {
  EXPECT_EQ(ms_text(nanoseconds(0)), "0");
  EXPECT_EQ(ms_text(nanoseconds(1)), "0.000001");
  EXPECT_EQ(ms_text(nanoseconds(1'500'000)), "1.5");
  EXPECT_EQ(ms_text(nanoseconds(11'700'000)), "11.7");
  EXPECT_EQ(ms_text(nanoseconds(198'000'000)), "198");
  EXPECT_EQ(ms_text(nanoseconds(-250'000)), "-0.25");
  EXPECT_EQ(ms_text(nanoseconds(std::numeric_limits<std::int64_t>::min())),
            "-9223372036854.775808");
}

TEST(UsText, HasThreeDecimals) {
  EXPECT_EQ(us_text(nanoseconds(250'000)), "250.000");
  EXPECT_EQ(us_text(nanoseconds(250)), "0.250");
  EXPECT_EQ(us_text(nanoseconds(9'007'199'254'740'993)), "9007199254740.993");
  EXPECT_EQ(us_number(nanoseconds(20'000)), "20");
  EXPECT_EQ(us_number(nanoseconds(100)), "0.1");
}

// O27: the names of that case.
TEST(JsonString, SurvivesAwkwardNames) {
  for (const char* name : {"conv \"3x3\"", "C:\\net\\block", "tab\tand\x01", "a]}b",
                           "Gr\xC3\xB6\xC3\x9F"
                           "e"}) {
    EXPECT_EQ(nlohmann::json::parse(json_string(name)).get<std::string>(), name);
  }
  EXPECT_EQ(json_string("tab\tand\x01"), R"("tab\tand\u0001")");
}

TEST(JsonString, PutsTheReplacementCharacterForInvalidUtf8) {
  EXPECT_EQ(json_string("a\xFF"
                        "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(json_string("cut off \xC3"), "\"cut off \xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace unlatch
