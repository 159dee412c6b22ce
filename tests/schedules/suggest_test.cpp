#include "schedules/suggest.h"

#include <gtest/gtest.h>

namespace unlatch {
namespace {

TEST(Suggest, FindsTheClosestNames) {
  EXPECT_EQ(suggest("1f2b", {"bp", "1f1b", "fdg"}), " Did you mean '1f1b'?");
  EXPECT_EQ(suggest("fgd", {"bp", "1f1b", "fdg"}), " Did you mean 'fdg'?");
  EXPECT_EQ(suggest("micro-batch", {"micro-batches", "batches"}), " Did you mean 'micro-batches'?");
}

TEST(Suggest, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(suggest("zebra", {"bp", "1f1b"}), "");
  EXPECT_EQ(suggest("x", {"y"}), "");
  EXPECT_EQ(suggest(std::string(1000, 'a'), {"bp"}), "");
}

TEST(Suggest, ListsSeveral) {
  EXPECT_EQ(suggest("fd", {"fdg", "fr", "fdx"}), " Did you mean 'fdg', 'fr' or 'fdx'?");
}

}  // namespace
}  // namespace unlatch
