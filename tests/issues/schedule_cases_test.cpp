// Acceptance cases about graphs and their times: O02, O04, O51 and O53.
#include <gmock/gmock.h>
#include <pthread.h>

#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "schedules/graph_algorithms.h"
#include "schedules/parse_task.h"
#include "tests/sim/support.h"
#include "traces/chrome_trace.h"
#include "traces/metrics.h"
#include "traces/tasks_csv.h"

namespace unlatch::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::map<std::string, Span> spans_of(const TaskGraph& graph, const Timeline& timeline) {
  std::map<std::string, Span> spans;
  for (const TaskId id : graph.ids()) spans[label(graph.task(id))] = timeline[id];
  return spans;
}

Span span_ms(double start, double end) { return {ms(start), ms(end)}; }

enum class First { send, receive };

/// Rank 0 sends x0 = h_1(1) and receives x1 = g_1(0); rank 1 the other way round.
Schedule exchange(First on_rank_0, First on_rank_1) {
  const Stage lower{0}, upper{1};
  Schedule schedule("exchange", {.stages = 2, .micro_batches = 2});
  Program& rank0 = schedule.on({0});
  Program& rank1 = schedule.on({1});
  rank0.forward(lower, {0}).push_forward(lower, {0}).forward(lower, {1});
  if (on_rank_0 == First::receive) rank0.pop_backward(lower, {0});
  rank0.push_forward(lower, {1});
  if (on_rank_0 == First::send) rank0.pop_backward(lower, {0});
  rank0.backward(lower, {0}).pop_backward(lower, {1}).backward(lower, {1});

  rank1.pop_forward(upper, {0}).forward(upper, {0}).backward(upper, {0});
  if (on_rank_1 == First::receive) rank1.pop_forward(upper, {1});
  rank1.push_backward(upper, {0});
  if (on_rank_1 == First::send) rank1.pop_forward(upper, {1});
  rank1.forward(upper, {1}).backward(upper, {1}).push_backward(upper, {1});
  return schedule;
}

TEST(O02, BufferedSendsThatCrossAreFine) {
  const StageCosts costs = costs_of({.transfer = "1"}, 2);
  for (const auto& [rank0, rank1] : {std::pair(First::send, First::send),
                                     {First::receive, First::send},
                                     {First::send, First::receive}}) {
    const TaskGraph graph = with_transfers(exchange(rank0, rank1).build(), costs.links());
    const Timeline timeline = run(graph, costs);
    const auto spans = spans_of(graph, timeline);
    EXPECT_EQ(spans.at("1B0"), span_ms(3, 5));
    EXPECT_EQ(spans.at("1SEND_B0"), span_ms(5, 6));
    EXPECT_EQ(spans.at("0B0"), span_ms(6, 8));
  }
  const TaskGraph graph = with_transfers(exchange(First::send, First::send).build(), costs.links());
  const Timeline timeline = run(graph, costs);
  EXPECT_EQ(spans_of(graph, timeline).at("0SEND_F1"), span_ms(2, 3));
  EXPECT_EQ(makespan(timeline), ms(11));
}

TEST(O02, TwoRanksThatReceiveFirstWaitForEachOther) {
  const auto violations = exchange(First::receive, First::receive).violations();
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].rule, "deadlock");
  EXPECT_THAT(violations[0].message,
              AllOf(HasSubstr("rank 0 0PUSH_F1"), HasSubstr("rank 0 0POP_B0"),
                    HasSubstr("rank 1 1PUSH_B0"), HasSubstr("rank 1 1POP_F1")));
}

TEST(O04, TheBaseFileTakesItsTime) {
  Schedule schedule("base", {.stages = 2, .micro_batches = 2});
  const std::vector<std::vector<std::string>> rows{{"0F0", "0F1", "", "", "0B0", "", "0B1"},
                                                   {"", "1F0", "1B0", "", "1F1", "1B1", ""}};
  for (int r = 0; r < 2; ++r) {
    for (int column = 0; column < 7; ++column) {
      add_cell(schedule.on({r}), rows[r][column], r, column);
    }
  }
  const TaskGraph graph = schedule.build();
  const Timeline timeline = run(graph, unit_costs(2));
  EXPECT_EQ(spans_of(graph, timeline), (std::map<std::string, Span>{{"0F0", span_ms(0, 1)},
                                                                    {"0F1", span_ms(1, 2)},
                                                                    {"1F0", span_ms(1, 2)},
                                                                    {"1B0", span_ms(2, 4)},
                                                                    {"1F1", span_ms(4, 5)},
                                                                    {"1B1", span_ms(5, 7)},
                                                                    {"0B0", span_ms(4, 6)},
                                                                    {"0B1", span_ms(7, 9)}}));
  const Metrics all = metrics(graph, timeline);
  EXPECT_EQ(all.makespan, ms(9));
  for (const RankMetrics& rank : all.ranks) EXPECT_EQ(rank.busy, ms(6));
  EXPECT_DOUBLE_EQ(*all.bubble_ratio, 1.0 / 3);
}

/// Calls body() on a thread with a stack of 1 MiB; recursion over a long chain would overflow it.
template <class Body>
void on_a_small_stack(Body body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{1} << 20), 0);
  pthread_t thread{};
  const auto call = [](void* given) -> void* {
    (*static_cast<Body*>(given))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(O51, AnEdgeFromTheLastTaskToTheFirstIsADeadlockWithAShortReport) {
  std::string report;
  on_a_small_stack([&] {
    const TaskGraph graph = graph_of("1f1b", {.stages = 1, .micro_batches = 200'000});
    const int last = graph.size() - 2;  // the last backward; the update follows
    const auto waits_for = [&](int node, const std::function<void(int)>& visit) {
      for (const Edge edge : graph.edges_into({node})) visit(edge.from().value);
      if (node == 0) visit(last);
    };
    std::vector<std::string> places;
    for (const int node : shortest_cycle(graph.size(), waits_for)) {
      places.push_back(label(graph.task({node})));
    }
    report = cycle_text(places);
  });
  EXPECT_THAT(report, AllOf(HasSubstr("deadlock"), HasSubstr("400000 tasks"),
                            HasSubstr("(399990 more)"), HasSubstr("0F0")));
  EXPECT_LT(report.size(), 400u);
}

TEST(O51, TheChainItselfRunsOnASmallStack) {
  nanoseconds length{0};
  on_a_small_stack([&] {
    const TaskGraph graph = graph_of("1f1b", {.stages = 1, .micro_batches = 200'000});
    length = makespan(run(graph, unit_costs(1)));
  });
  EXPECT_EQ(length, ms(600'000));
}

std::string written(const TaskGraph& graph, const StageCosts& costs) {
  const Timeline timeline = run(graph, costs);
  std::ostringstream text;
  write_chrome_trace(text, graph, timeline);
  write_tasks_csv(text, graph, timeline);
  return text.str();
}

TEST(O53, EightThreadsWriteTheBytesOfOne) {
  const StageCosts costs = unit_costs(8);
  const TaskGraph graph = graph_of("1f1b", {.stages = 8, .micro_batches = 32});
  const std::string alone = written(graph, costs);
  std::vector<std::string> together(8);
  std::vector<std::thread> threads;
  for (std::string& text : together) threads.emplace_back([&] { text = written(graph, costs); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : together) EXPECT_EQ(text, alone);
}

/// The same graph with one more task of length 0 on rank 0, in front of task number `place`.
TaskGraph with_an_extra_task(const TaskGraph& graph, int place) {
  HandGraph hand(graph.shape());
  std::vector<TaskId> moved;
  for (const TaskId id : graph.ids()) {
    if (id.value == place) hand.add(Op::update, 0, 0);
    const Task& task = graph.task(id);
    std::vector<Edge> edges;
    for (const Edge edge : graph.edges_into(id)) {
      if (edge.kind() != EdgeKind::order) edges.emplace_back(moved[edge.from().value], edge.kind());
    }
    moved.push_back(hand.add(task.op, task.stage.value, task.micro_batch.value, edges));
  }
  return hand.build();
}

TEST(O53, OneMoreTaskOfNoCostChangesNoOtherTime) {
  const StageCosts costs = unit_costs(8);
  const TaskGraph graph = graph_of("1f1b", {.stages = 8, .micro_batches = 32});
  const Timeline plain = run(graph, costs);
  EXPECT_EQ(makespan(plain), ms(117));
  for (const int place : {0, 1, 100, graph.size() - 1}) {
    const TaskGraph extended = with_an_extra_task(graph, place);
    ASSERT_EQ(extended.size(), graph.size() + 1);
    Timeline others = run(extended, costs);
    EXPECT_EQ(others.spans[place].length(), ms(0));
    others.spans.erase(others.spans.begin() + place);
    EXPECT_EQ(others, plain) << place;
  }
}

}  // namespace
}  // namespace unlatch::sim
