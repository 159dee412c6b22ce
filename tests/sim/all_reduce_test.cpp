// Collectives: who sends what to whom, and what that costs on hand-worked networks.
#include "sim/all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace unlatch::sim {
namespace {

/// A star of links that take 5 ns and a byte a ns: member m goes up on link 2m, down on 2m+1.
Route over_star(int from, int to) {
  return {.links = {2 * from, 2 * to + 1}, .latency = nanoseconds(10), .rate = 1e9};
}
/// The same with one link for both ways.
Route over_half_duplex_star(int from, int to) {
  return {.links = {from, to}, .latency = nanoseconds(10), .rate = 1e9};
}

nanoseconds time_on_star(const Collective& collective, double bytes, int members) {
  const std::vector<double> rates(2 * static_cast<std::size_t>(members), 1e9);
  return time_alone(transfers_of(collective, bytes, over_star), rates);
}

// 2 (n-1) latency + 2 (n-1)/n bytes/bandwidth.
TEST(AllReduce, GoesRoundARing) {
  EXPECT_EQ(time_on_star(ring_all_reduce(2), 100, 2), nanoseconds(2 * 10 + 100));
  EXPECT_EQ(time_on_star(ring_all_reduce(4), 100, 4), nanoseconds(6 * 10 + 150));
  EXPECT_EQ(time_on_star(ring_all_reduce(8), 800, 8), nanoseconds(14 * 10 + 1400));
}

// 2 latency log2(n) + 2 bytes/bandwidth.
TEST(AllReduce, GoesUpAndDownTwoTrees) {
  EXPECT_EQ(time_on_star(tree_all_reduce(4), 100, 4), nanoseconds(4 * 10 + 200));
  EXPECT_EQ(time_on_star(tree_all_reduce(8), 100, 8), nanoseconds(6 * 10 + 200));
  EXPECT_EQ(time_on_star(tree_all_reduce(64), 100, 64), nanoseconds(12 * 10 + 200));
  EXPECT_EQ(tree_all_reduce(5).steps, 6) << "log2 rounded up";
}

// Two members have one edge: each half of the bytes goes up one tree and down the other.
TEST(AllReduce, SendsTwoMembersNoMoreThanARing) {
  EXPECT_EQ(time_on_star(tree_all_reduce(2), 100, 2), nanoseconds(2 * 10 + 100));
}

TEST(AllReduce, GathersWhatIsLeftOfCompressedGradients) {
  EXPECT_EQ(time_on_star(ring_all_gather(4), 100, 4), nanoseconds(3 * 10 + 300));
}

TEST(AllReduce, CostsOneMemberNothing) {
  for (const Collective& alone : {ring_all_reduce(1), tree_all_reduce(1), ring_all_gather(1)}) {
    EXPECT_TRUE(alone.flows.empty());
    EXPECT_EQ(time_on_star(alone, 100, 1), nanoseconds(0));
  }
}

// Of three members each sends and receives 4/3 of 90 bytes over the one link that it has.
TEST(AllReduce, CountsBothWaysOfAHalfDuplexLink) {
  const std::vector<double> rates(3, 1e9);
  EXPECT_EQ(time_alone(transfers_of(ring_all_reduce(3), 90, over_half_duplex_star), rates),
            nanoseconds(4 * 10 + 240));
}

TEST(AllReduce, SpansAllMembersTwiceAndBurdensNone) {
  for (int members = 2; members <= 70; ++members) {
    SCOPED_TRACE(members);
    const Collective trees = tree_all_reduce(members);
    const auto edges = static_cast<std::size_t>(members - 1);
    ASSERT_EQ(trees.flows.size(), 4 * edges);
    std::vector<double> sent(static_cast<std::size_t>(members), 0), received = sent;
    for (const Collective::Flow& flow : trees.flows) {
      sent[static_cast<std::size_t>(flow.from)] += flow.share;
      received[static_cast<std::size_t>(flow.to)] += flow.share;
    }
    EXPECT_LE(*std::ranges::max_element(sent), 2);
    EXPECT_LE(*std::ranges::max_element(received), 2);
    for (const std::size_t first : {0UL, 2UL}) {  // flows come in fours: up and down either tree
      std::set<int> reached{members % 2 == 0 && first == 2 ? members - 1 : first == 2 ? 1 : 0};
      for (std::size_t round = 0; round < edges; ++round) {
        for (std::size_t e = 0; e < edges; ++e) {
          const Collective::Flow& up = trees.flows[4 * e + first];
          if (reached.contains(up.to)) reached.insert(up.from);
        }
      }
      EXPECT_EQ(reached.size(), edges + 1) << "every member has a way up to the root";
    }
  }
}

}  // namespace
}  // namespace unlatch::sim
