// Disturbances: slow ranks and links and stated pauses as they are typed, and what counts as none.
#include "sim/disturbance.h"

#include <gmock/gmock.h>

#include "schedules/error.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Disturbance, ReadsSlowRanks) {
  EXPECT_EQ(parse_slow("2:1.5", 4), (SlowRank{Rank{2}, 1.5}));
  EXPECT_THAT(slow_factors({{Rank{2}, 1.5}}, 4), ElementsAre(1, 1, 1.5, 1));
  EXPECT_THAT(error_of([] { parse_slow("4:2", 4); }), AllOf(HasSubstr("'4'"), HasSubstr("0..3")));
  EXPECT_THAT(error_of([] { parse_slow("2", 4); }), HasSubstr("RANK:FACTOR"));
  EXPECT_THAT(error_of([] { parse_slow("2:-1", 4); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([] {
                slow_factors({{Rank{1}, 2}, {Rank{1}, 3}}, 4);
              }),
              HasSubstr("rank 1 twice"));
}

TEST(Disturbance, ReadsSlowLinksInEitherOrder) {
  const SlowLink link{Rank{1}, Rank{2}, 3};
  EXPECT_EQ(parse_slow_link("1-2:3", 4), link);
  EXPECT_EQ(parse_slow_link("2-1:3", 4), link);
  EXPECT_TRUE(link.joins(Rank{2}, Rank{1}));
  EXPECT_FALSE(link.joins(Rank{0}, Rank{1}));
  const auto error = [](const char* text) {
    return error_of([text] { parse_slow_link(text, 4); });
  };
  EXPECT_THAT(error("1:3"), HasSubstr("RANK-RANK:FACTOR"));
  EXPECT_THAT(error("1-2"), HasSubstr("RANK-RANK:FACTOR"));
  EXPECT_THAT(error("1-4:2"), AllOf(HasSubstr("'4'"), HasSubstr("0..3")));
  EXPECT_THAT(error("1-1:2"), HasSubstr("two ranks"));
  EXPECT_THAT(error("0-1:0"), HasSubstr("greater than 0"));
  EXPECT_THAT(error_of([&] {
                require_distinct({link, {Rank{1}, Rank{2}, 2}});
              }),
              HasSubstr("ranks 1 and 2 twice"));
}

TEST(Disturbance, ReadsStatedPauses) {
  EXPECT_EQ(parse_pause("1:100ms:20ms", 4), (RankPause{Rank{1}, {ms(100), ms(20)}}));
  EXPECT_EQ(parse_pause("0:0:2", 1), (RankPause{Rank{0}, {ms(0), ms(2)}}));
  const auto error = [](const char* text) { return error_of([text] { parse_pause(text, 4); }); };
  EXPECT_THAT(error("1:2"), HasSubstr("RANK:AT:TIME"));
  EXPECT_THAT(error("4:2:1"), AllOf(HasSubstr("'4'"), HasSubstr("0..3")));
  EXPECT_THAT(error("1:soon:1"), HasSubstr("soon"));
  EXPECT_THAT(error("1:2:0"), HasSubstr("longer than 0"));
}

TEST(Disturbance, IsNoneWhereEveryFactorIsOne) {
  EXPECT_TRUE(Disturbance{}.none());
  EXPECT_TRUE((Disturbance{.slow = {1, 1}, .slow_links = {{Rank{0}, Rank{1}, 1}}}).none());
  EXPECT_FALSE((Disturbance{.slow = {1, 2}}).none());
  EXPECT_FALSE((Disturbance{.slow_links = {{Rank{0}, Rank{1}, 2}}}).none());
  EXPECT_FALSE((Disturbance{.pauses = {{Rank{0}, {ms(1), ms(1)}}}}).none());
  EXPECT_FALSE((Disturbance{.stragglers = {Straggler{}}}).none());
}

}  // namespace
}  // namespace unlatch::sim
