#include "schedules/graph_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/registry.h"

namespace unlatch {
namespace {

Predecessors rows(const std::vector<std::vector<int>>& table) {
  return [&table](int node, const std::function<void(int)>& visit) {
    for (const int from : table[node]) visit(from);
  };
}

TEST(ShortestCycle, FindsNoneInAChain) {
  const std::vector<std::vector<int>> table{{}, {0}, {1}, {2, 0}};
  EXPECT_TRUE(shortest_cycle(4, rows(table)).empty());
}

TEST(ShortestCycle, PrefersTheShorterOfTwo) {
  // 0 -> 1 -> 2 -> 3 -> 0 and 2 -> 1.
  const std::vector<std::vector<int>> table{{1}, {2}, {3, 1}, {0}};
  EXPECT_THAT(shortest_cycle(4, rows(table)), testing::UnorderedElementsAre(1, 2));
}

TEST(ShortestCycle, SeesATaskThatWaitsForItself) {
  const std::vector<std::vector<int>> table{{}, {1}};
  EXPECT_THAT(shortest_cycle(2, rows(table)), testing::ElementsAre(1));
}

TEST(ShortestCycle, FindsAVeryLongOneWithoutRecursion) {  // case O51
  const int n = 400'000;
  const auto ring = [n](int node, const std::function<void(int)>& visit) {
    visit(node > 0 ? node - 1 : n - 1);
  };
  const std::vector<int> cycle = shortest_cycle(n, ring);
  EXPECT_EQ(cycle.size(), 400'000U);
  std::vector<std::string> places;
  for (const int node : cycle) places.push_back(std::to_string(node));
  const std::string text = cycle_text(places);
  EXPECT_LT(text.size(), 300U);
  EXPECT_THAT(text, testing::HasSubstr("these 400000 tasks"));
  EXPECT_THAT(text, testing::HasSubstr("(399990 more)"));
}

TEST(CriticalPath, OfOneForwardOneBackwardIsTheLastMicroBatchOfTheFirstRank) {
  const TaskGraph graph =
      ScheduleSpec::parse("1f1b").make({.stages = 4, .micro_batches = 8}).build();
  const auto length = [&](TaskId id) {
    const Op op = graph.task(id).op;
    return op == Op::forward ? 1LL : op == Op::backward ? 2LL : 0LL;
  };
  long long total = 0;
  const std::vector<TaskId> path = critical_path(graph, length);
  for (const TaskId id : path) total += length(id);
  EXPECT_EQ(total, 3 * (8 + 4 - 1));
  EXPECT_EQ(label(graph.task(path.front())), "0F0");
  for (std::size_t j = 1; j < path.size(); ++j) {
    bool linked = false;
    for (const Edge edge : graph.edges_into(path[j])) linked = linked || edge.from() == path[j - 1];
    EXPECT_TRUE(linked);
  }
}

TEST(TransitiveReduction, DropsWhatOtherEdgesImply) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 2, .batches = 2}).build();
  const auto edges = transitive_reduction(graph);
  EXPECT_LE(edges.size(), graph.edges().size());
  for (const auto& [from, to] : edges) EXPECT_LT(from, to);
  // Two stages, one batch: 0F0 -> 1F0 -> 1B0 -> 0B0; the lane edge 0F0 -> 0B0 is implied.
  const auto named = [&](const std::string& from, const std::string& to) {
    return std::any_of(edges.begin(), edges.end(), [&](const auto& edge) {
      return label(graph.task(edge.first)) == from && label(graph.task(edge.second)) == to;
    });
  };
  EXPECT_TRUE(named("1B0", "0B0"));
  EXPECT_FALSE(named("0F0", "0B0"));
}

}  // namespace
}  // namespace unlatch
