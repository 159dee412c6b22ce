// Pauses: the clock that stands still, and runs by hand in which a rank or a link does.
#include "sim/pauses.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "schedules/error.h"
#include "sim/straggler_costs.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::HasSubstr;

nanoseconds ns(std::int64_t t) { return nanoseconds(t); }

// Still from 10 to 15 and from 20 to 30.
TEST(Clock, StandsStillInItsPauses) {
  Clock clock({.stated = {{ns(20), ns(10)}, {ns(10), ns(5)}}});
  const std::pair<int, int> own[] = {{0, 0},   {10, 10}, {12, 10}, {15, 10}, {17, 12},
                                     {20, 15}, {29, 15}, {30, 15}, {31, 16}};
  for (const auto& [at, then] : own) EXPECT_EQ(clock.own(ns(at)), ns(then)) << at;
  EXPECT_EQ(clock.first_at(ns(10)), ns(10));
  EXPECT_EQ(clock.last_at(ns(10)), ns(15));
  EXPECT_EQ(clock.first_at(ns(15)), ns(20));
  EXPECT_EQ(clock.last_at(ns(15)), ns(30));
  EXPECT_EQ(clock.first_at(ns(16)), ns(31));
  EXPECT_EQ(clock.first_at(ns(9)), ns(9));
}

TEST(Clock, JoinsPausesThatOverlapOrTouch) {
  Clock clock({.stated = {{ns(10), ns(10)}, {ns(15), ns(10)}, {ns(25), ns(1)}}});
  EXPECT_EQ(clock.own(ns(100)), ns(84));
  EXPECT_EQ(clock.first_at(ns(11)), ns(27));
}

TEST(Clock, IsReadBackWhateverIsAskedFirst) {
  const PauseSources sources{.stated = {{ns(500), ns(70)}},
                             .random = {{ns(100), ns(30), 3}, {ns(40), ns(5), 4}}};
  Clock forwards(sources), backwards(sources);
  std::vector<nanoseconds> first, second;
  for (int at = 0; at <= 5000; ++at) first.push_back(forwards.own(ns(at)));
  for (int at = 5000; at >= 0; --at) second.push_back(backwards.own(ns(at)));
  std::ranges::reverse(second);
  EXPECT_EQ(first, second);
  for (const nanoseconds own : first) {
    EXPECT_EQ(forwards.own(backwards.first_at(own)), own);
    EXPECT_EQ(forwards.own(backwards.last_at(own)), own);
  }
}

// In n running times of mean length e come about n pauses; 4 deviations are 4 sqrt(n).
TEST(Clock, StandsStillAsOftenAsAskedFor) {
  constexpr int expected = 10'000;
  Clock clock({.random = {{ns(1'000), ns(10), 11}}});
  const nanoseconds own(1'000 * expected);
  const auto pauses = (clock.first_at(own) - own).count() / 10;
  EXPECT_NEAR(static_cast<double>(pauses), expected, 400);
}

TEST(Clock, RefusesWhatNeverEnds) {
  Clock dense({.random = {{ns(1), ns(1), 5}}});
  EXPECT_THAT(error_of([&] { dense.first_at(ns(std::int64_t{1} << 40)); }),
              HasSubstr("stands still more than"));
  const PauseSources endless{.stated = {{ns(1), nanoseconds::max()}}};
  EXPECT_THAT(error_of([&] { Clock{endless}; }), HasSubstr("292 years"));
}

Timeline run_with_pause(const TaskGraph& graph, const StageCosts& costs,
                        std::vector<RankPause> pauses) {
  return run(graph, StragglerCosts(costs, graph, {.pauses = std::move(pauses)}, 0));
}

// GPipe on two ranks, F = 1, B = 2, two micro-batches; 9 without pauses:
//   rank 0  F0 F1 .  .  .  B1 -  B0 -
//   rank 1  .  F0 F1 B1 -  B0 -  .  .
TEST(Pauses, MakeTheTaskLongerThatMeetsThem) {
  const StageCosts costs = unit_costs(2);
  const TaskGraph graph = graph_of("gpipe", {.stages = 2, .micro_batches = 2});
  const auto time = [&](int rank, double at, double length) {
    return to_ms(makespan(run_with_pause(graph, costs, {{Rank{rank}, {ms(at), ms(length)}}})));
  };
  EXPECT_EQ(time(0, 1.5, 5), 14);  // within 0F1: all that follows is 5 later
  EXPECT_EQ(time(0, 1, 5), 14);    // as 0F1 starts
  EXPECT_EQ(time(0, 2, 3), 9);     // while rank 0 waits from 2 to 5
  EXPECT_EQ(time(0, 4, 3), 11);    // 0B1 is ready at 5, works from 7 on
  EXPECT_EQ(time(1, 6, 2), 11);    // within 1B0: 0B0 starts at 9
  EXPECT_EQ(time(1, 7, 2), 9);     // 1B0 has just ended
  EXPECT_EQ(time(0, 9, 2), 9);     // after all
}

TEST(Pauses, CountAsWorkOfTheTask) {
  const StageCosts costs = unit_costs(1);
  const TaskGraph graph = graph_of("bp", {.stages = 1});
  const Timeline timeline = run_with_pause(graph, costs, {{Rank{0}, {ms(0.5), ms(4)}}});
  EXPECT_EQ(timeline[TaskId{0}], (Span{ms(0), ms(5)}));
  EXPECT_EQ(timeline[TaskId{1}], (Span{ms(5), ms(7)}));
}

// F 0..1; R beside the second F, both 1 long from 1 on and still from 1.5 to 3.5.
TEST(Pauses, HoldUpRecomputationToo) {
  HandGraph hand({.stages = 1, .batches = 2});
  const TaskId first = hand.add(Op::forward, 0, 0);
  const TaskId f = hand.add(Op::forward, 0, 1);
  const TaskId r = hand.add(Op::recompute, 0, 0, {{first, EdgeKind::local}, {f, EdgeKind::beside}},
                            Engine::recompute);
  const TaskGraph graph = hand.build();
  for (const auto& [overlap, end] : {std::pair{"1", 4.0}, {"0", 5.0}, {"0.5", 4.5}}) {
    const StageCosts costs = costs_of({.overlap = overlap}, 1);
    const Timeline timeline = run_with_pause(graph, costs, {{Rank{0}, {ms(1.5), ms(2)}}});
    EXPECT_EQ(timeline[f], (Span{ms(1), ms(4)}));
    EXPECT_EQ(timeline[r].end, ms(end)) << overlap;
  }
}

TEST(Pauses, OfANodeStopAllItsRanksAtOnce) {
  const StageCosts costs = unit_costs(2);
  const TaskGraph graph = graph_of("bp", {.stages = 2});
  const Straggler node = Straggler::parse("pause:every=3,time=1,node=2");
  for (int run = 0; run < 20; ++run) {
    const StragglerCosts slow(costs, graph, {.stragglers = {node}}, run);
    ASSERT_NE(slow.pauses(), nullptr);
    std::set<std::uint64_t> seeds;
    for (const PauseSources& place : slow.pauses()->places) seeds.insert(place.random.at(0).seed);
    EXPECT_EQ(seeds.size(), 1U);
    // One rank works at a time, so the run stands still with its node.
    Clock clock(slow.pauses()->places.front());
    EXPECT_EQ(makespan(sim::run(graph, slow)), clock.first_at(ms(6)));
  }
}

// The message 0 -> 1 is on its way from 1 on.
TEST(Pauses, OfLinksHoldUpMessages) {
  const StageCosts costs = costs_of({.transfer = "1"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2}, costs.links());
  const Straggler links = Straggler::parse("pause:every=2,time=3,on=links");
  bool longer = false;
  for (int run = 0; run < 20; ++run) {
    const StragglerCosts slow(costs, graph, {.stragglers = {links}}, run);
    const Timeline timeline = sim::run(graph, slow);
    for (const TaskId id : graph.ids()) {
      const Task& task = graph.task(id);
      const Span span = timeline[id];
      if (!is_send(task.op)) {
        EXPECT_EQ(span.length(), costs.duration(task)) << label(task);
        continue;
      }
      const int place = slow.pauses()->place_of_lane[task.lane];
      Clock clock(slow.pauses()->places.at(place));
      EXPECT_EQ(span.end, clock.first_at(clock.own(span.start) + ms(1))) << label(task);
      longer = longer || span.length() > ms(1);
    }
  }
  EXPECT_TRUE(longer);
}

TEST(Pauses, OfOtherRanksChangeNothing) {
  const StageCosts costs = costs_of({.update = "0.1", .transfer = "0.2"}, 3);
  for (const char* spec : {"1f1b", "dsp", "fr", "zb-h1"}) {
    const TaskGraph graph =
        graph_of(spec, {.stages = 3, .micro_batches = 4, .batches = 3}, costs.links());
    const Timeline late = run_with_pause(graph, costs, {{Rank{1}, {ms(1e6), ms(1)}}});
    EXPECT_EQ(late.spans, run(graph, costs).spans) << spec;
  }
}

}  // namespace
}  // namespace unlatch::sim
