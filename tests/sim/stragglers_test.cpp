// Stragglers: what a draw depends on, and what it multiplies.
#include "sim/straggler_costs.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "schedules/error.h"
#include "sim/monte_carlo.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Straggler, ReadsItsKindsAndKeys) {
  const Straggler random = Straggler::parse("random:probability=0.25,factor=2");
  EXPECT_EQ(random.kind, Straggler::Kind::random);
  EXPECT_EQ(random.probability, 0.25);
  EXPECT_EQ(random.factor, 2);
  const Straggler lognormal = Straggler::parse("lognormal:sigma=0.5");
  EXPECT_EQ(lognormal.kind, Straggler::Kind::lognormal);
  EXPECT_EQ(lognormal.sigma, 0.5);
}

TEST(Straggler, RefusesWhatItDoesNotKnow) {
  const auto parse = [](const char* text) { return error_of([text] { Straggler::parse(text); }); };
  EXPECT_THAT(parse("randon"), AllOf(HasSubstr("randon"), HasSubstr("random, lognormal")));
  EXPECT_THAT(parse("random:sigma=1"), AllOf(HasSubstr("sigma"), HasSubstr("probability, factor")));
  EXPECT_THAT(parse("random:probability=1.5"), AllOf(HasSubstr("1.5"), HasSubstr("0..1")));
  EXPECT_THAT(parse("random:factor=0"), HasSubstr("greater than 0"));
  EXPECT_THAT(parse("random:factor"), HasSubstr("key=value"));
  EXPECT_THAT(parse("random:on=node"), AllOf(HasSubstr("'node'"), HasSubstr("nodes, links")));
  EXPECT_THAT(parse("random:node=0"), AllOf(HasSubstr("node '0'"), HasSubstr("whole number")));
  EXPECT_THAT(parse("random:on=links,node=2"), HasSubstr("node=2 is for on=nodes"));
  EXPECT_THAT(parse("random:every=1s"), HasSubstr("unknown key 'every'"));
  EXPECT_THAT(parse("lognormal:sigma=0.1,sigma=0.9"), HasSubstr("sigma is given twice"));
  EXPECT_THAT(parse("pause"), AllOf(HasSubstr("every=T"), HasSubstr("time=T")));
  EXPECT_THAT(parse("pause:every=1s"), HasSubstr("time=T"));
  EXPECT_THAT(parse("pause:every=0,time=1"), HasSubstr("longer than 0"));
}

TEST(Straggler, ReadsPausesAndWhoSharesADraw) {
  const Straggler pause = Straggler::parse("pause:every=2s,time=20ms");
  EXPECT_EQ(pause.kind, Straggler::Kind::pause);
  EXPECT_EQ(pause.every, ms(2000));
  EXPECT_EQ(pause.time, ms(20));
  EXPECT_EQ(pause.on, Straggler::On::ranks);
  EXPECT_EQ(Straggler::parse("random:on=links").on, Straggler::On::links);
  EXPECT_EQ(Straggler::parse("random:node=4").on, Straggler::On::nodes);
  EXPECT_EQ(Straggler::parse("random:on=nodes,node=4").node, 4);
}

TEST(Straggler, DrawsTheSameForTheSameArgumentsAndAnotherForOthers) {
  const Straggler draw = Straggler::parse("lognormal:sigma=0.3");
  const double one = draw.draw(1, 2, Rank{3}, 4);
  EXPECT_EQ(one, draw.draw(1, 2, Rank{3}, 4));
  EXPECT_NE(one, draw.draw(2, 2, Rank{3}, 4));
  EXPECT_NE(one, draw.draw(1, 3, Rank{3}, 4));
  EXPECT_NE(one, draw.draw(1, 2, Rank{4}, 4));
  EXPECT_NE(one, draw.draw(1, 2, Rank{3}, 5));
}

TEST(Straggler, IsSlowAsOftenAsAskedForAndIndependentlyOnEachRank) {
  const Straggler draw = Straggler::parse("random:probability=0.3,factor=2");
  const int draws = 100000;
  int slow = 0, both = 0;
  for (int step = 0; step < draws; ++step) {
    const bool here = draw.draw(0, 0, Rank{0}, step) == 2;
    const bool there = draw.draw(0, 0, Rank{1}, step) == 2;
    slow += here ? 1 : 0;
    both += here && there ? 1 : 0;
  }
  EXPECT_NEAR(slow, 0.3 * draws, 600);   // four standard deviations
  EXPECT_NEAR(both, 0.09 * draws, 370);  // likewise
}

TEST(Straggler, DrawsALognormalOfTheAskedWidth) {
  const Straggler draw = Straggler::parse("lognormal:sigma=0.2");
  const int draws = 100000;
  double sum = 0, squares = 0;
  for (int step = 0; step < draws; ++step) {
    const double z = std::log(draw.draw(0, 0, Rank{0}, step));
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / draws, 0, 0.0026);
  EXPECT_NEAR(std::sqrt(squares / draws), 0.2, 0.0018);
}

TEST(Straggler, DrawsAGammaOfMeanOneAndTheAskedShape) {
  for (const double shape : {0.5, 4.0, 50.0}) {
    const Straggler draw = Straggler::parse(fmt::format("gamma:shape={}", shape));
    const int draws = 100000;
    double sum = 0, squares = 0;
    for (int step = 0; step < draws; ++step) {
      const double factor = draw.draw(0, 0, Rank{0}, step);
      ASSERT_GT(factor, 0);
      sum += factor;
      squares += (factor - 1) * (factor - 1);
    }
    const double deviation = 1 / std::sqrt(shape);
    EXPECT_NEAR(sum / draws, 1, 4 * deviation / std::sqrt(draws)) << shape;
    EXPECT_NEAR(squares / draws, 1 / shape, 0.05 / shape) << shape;
  }
}

TEST(Straggler, DrawsTheFactorsOfAFileEquallyOften) {
  const std::string path = testing::TempDir() + "/factors.txt";
  std::ofstream(path) << "1\n1.5\r\n\n4\n1\n";
  const Straggler draw = Straggler::parse("empirical:file=" + path);
  EXPECT_THAT(draw.factors, ElementsAre(1, 1.5, 4, 1));
  std::map<double, int> counts;
  const int draws = 40000;
  for (int step = 0; step < draws; ++step) ++counts[draw.draw(3, 1, Rank{2}, step)];
  EXPECT_EQ(counts.size(), 3U);
  EXPECT_NEAR(counts[1], draws / 2, 400);  // four standard deviations
  EXPECT_NEAR(counts[4], draws / 4, 350);
  std::ofstream(path) << "1\nfast\n";
  EXPECT_THAT(error_of([&] { Straggler::parse("empirical:file=" + path); }),
              AllOf(HasSubstr("factors.txt, line 2"), HasSubstr("'fast'")));
  std::ofstream(path) << "1\n0\n";
  EXPECT_THAT(error_of([&] { Straggler::parse("empirical:file=" + path); }),
              HasSubstr("line 2: a factor must be greater than 0"));
  std::ofstream(path) << "\n";
  EXPECT_THAT(error_of([&] { Straggler::parse("empirical:file=" + path); }),
              HasSubstr("holds no factors"));
  EXPECT_THAT(error_of([] { Straggler::parse("empirical"); }), HasSubstr("needs file=PATH"));
  for (const char* shape : {"0", "1e-300", "0.009"}) {
    EXPECT_THAT(error_of([&] { Straggler::parse(fmt::format("gamma:shape={}", shape)); }),
                HasSubstr("0.01"));
  }
}

TEST(StragglerCosts, MultiplyAllComputeOfAStepAndNoTransfer) {
  const StageCosts costs = costs_of({.update = "1", .transfer = "1"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2, .batches = 2}, costs.links());
  const Straggler always = Straggler::parse("random:probability=1,factor=3");
  const StragglerCosts slow(costs, graph, {.slow = {1.0, 1.5}, .stragglers = {always}}, 0);
  for (const Task& task : graph.tasks()) {
    const double factor = !is_compute(task.op) ? 1 : graph.rank(task) == Rank{0} ? 3 : 4.5;
    EXPECT_EQ(to_ms(slow.duration(task)), factor * to_ms(costs.duration(task))) << label(task);
  }
}

TEST(StragglerCosts, RefuseATaskThatNanosecondsCannotHold) {
  const StageCosts costs = costs_of({.forward = "1000000s"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2});
  const std::string slow = error_of([&] { StragglerCosts(costs, graph, {.slow = {1, 1e6}}, 0); });
  EXPECT_THAT(slow, AllOf(HasSubstr("1000000000 ms"), HasSubstr("126 years")));
  const Straggler always = Straggler::parse("random:probability=1");
  const StragglerCosts both(costs, graph, {.slow = {1, 1e6}, .stragglers = {always}}, 0);
  EXPECT_THAT(error_of([&] { run(graph, both); }), HasSubstr("126 years"));
}

TEST(StragglerCosts, ShareOneDrawAmongTheTasksOfALocalStep) {
  const StageCosts costs = unit_costs(3);
  const TaskGraph graph = graph_of("dsp", {.stages = 3, .batches = 40});
  const Straggler draw = Straggler::parse("lognormal:sigma=0.5");
  const StragglerCosts slow(costs, graph, {.stragglers = {draw}, .seed = 5}, 1);
  for (const Task& task : graph.tasks()) {
    if (!is_compute(task.op)) continue;
    const double factor = draw.draw(5, 1, graph.rank(task), task.step);
    EXPECT_NEAR(static_cast<double>(slow.duration(task).count()),
                factor * static_cast<double>(costs.duration(task).count()), 0.5);
  }
}

TEST(StragglerCosts, AreFixedAsLongAsNothingIsDrawn) {
  const StageCosts costs = unit_costs(2);
  const TaskGraph graph = graph_of("bp", {.stages = 2});
  const StragglerCosts slow(costs, graph, {.slow = {1, 2}}, 0);
  ASSERT_NE(slow.table(), nullptr);
  EXPECT_EQ(makespan(run(graph, slow)), ms(3 + 6));
  const Disturbance drawn{.slow = {1, 2}, .stragglers = {Straggler::parse("random")}};
  const StragglerCosts random(costs, graph, drawn, 0);
  EXPECT_EQ(random.table(), nullptr);
}

/// Lengths of all tasks of a run with unit costs, by rank and step.
std::map<std::pair<int, int>, std::set<double>> factors_by_step(const Disturbance& disturbance,
                                                                int run) {
  const StageCosts costs = unit_costs(4);
  const TaskGraph graph = graph_of("bp", {.stages = 4, .batches = 30});
  const StragglerCosts slow(costs, graph, disturbance, run);
  std::map<std::pair<int, int>, std::set<double>> factors;
  for (const Task& task : graph.tasks()) {
    if (task.op != Op::forward && task.op != Op::backward) continue;
    const double factor = to_ms(slow.duration(task)) / to_ms(costs.duration(task));
    factors[{graph.rank(task).value, task.step}].insert(std::round(factor * 1e5) / 1e5);
  }
  return factors;
}

TEST(StragglerCosts, GiveTheRanksOfANodeTheSameDraws) {
  const Disturbance pairs{.stragglers = {Straggler::parse("lognormal:sigma=0.5,node=2")}};
  auto factors = factors_by_step(pairs, 3);
  int apart = 0;
  for (int step = 0; step < 30; ++step) {
    EXPECT_EQ(factors.at({0, step}), factors.at({1, step})) << step;
    EXPECT_EQ(factors.at({2, step}), factors.at({3, step})) << step;
    apart += factors.at({0, step}) != factors.at({2, step}) ? 1 : 0;
  }
  EXPECT_EQ(apart, 30);
}

TEST(StragglerCosts, TakeTheNodesOfACluster) {
  Disturbance placed{.stragglers = {Straggler::parse("lognormal:sigma=0.5,on=nodes")},
                     .node_of_rank = {0, 1, 0, 1}};
  auto factors = factors_by_step(placed, 0);
  EXPECT_EQ(factors.at({0, 5}), factors.at({2, 5}));
  EXPECT_NE(factors.at({0, 5}), factors.at({1, 5}));
  placed.node_of_rank.clear();
  EXPECT_THAT(error_of([&] { factors_by_step(placed, 0); }), HasSubstr("node=N"));
}

TEST(StragglerCosts, OfANodeARankAreThoseOfRanks) {
  const Disturbance ranks{.stragglers = {Straggler::parse("lognormal:sigma=0.5")}};
  const Disturbance nodes{.stragglers = {Straggler::parse("lognormal:sigma=0.5,node=1")}};
  EXPECT_EQ(factors_by_step(ranks, 1), factors_by_step(nodes, 1));
}

TEST(StragglerCosts, MultiplyStragglersThatAreDrawnApart) {
  const Straggler one = Straggler::parse("lognormal:sigma=0.5");
  const auto single = factors_by_step({.stragglers = {one}}, 0);
  const auto both = factors_by_step({.stragglers = {one, one}}, 0);
  int squares = 0;
  for (const auto& [place, factor] : single) {
    const double alone = *factor.begin();
    squares += std::abs(*both.at(place).begin() - alone * alone) < 1e-3 * alone ? 1 : 0;
  }
  EXPECT_LT(squares, 5);  // the same draw twice would be a square everywhere
}

TEST(StragglerCosts, ChangeNothingWithFactorsOfOne) {
  const StageCosts costs = costs_of({.transfer = "0.5"}, 3);
  const TaskGraph graph = graph_of("dsp", {.stages = 3, .batches = 9}, costs.links());
  const Disturbance ones{.slow = {1, 1, 1},
                         .slow_links = {{Rank{0}, Rank{1}, 1}},
                         .stragglers = {Straggler::parse("random:probability=1,factor=1"),
                                        Straggler::parse("random:probability=1,factor=1,on=links"),
                                        Straggler::parse("pause:every=1000000s,time=1")}};
  EXPECT_EQ(run(graph, StragglerCosts(costs, graph, ones, 0)).spans, run(graph, costs).spans);
}

// F 0..1, message 1..1+3, F and B 4..7, message back 7..7+3, B 10..12.
TEST(StragglerCosts, SlowALinkBothWays) {
  const StageCosts costs = costs_of({.transfer = "1"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2}, costs.links());
  const StragglerCosts slow(costs, graph, {.slow_links = {{Rank{0}, Rank{1}, 3}}}, 0);
  ASSERT_NE(slow.table(), nullptr);
  EXPECT_EQ(makespan(run(graph, slow)), ms(12));
}

TEST(StragglerCosts, SlowOnlyTheLinkThatIsNamed) {
  const StageCosts costs = costs_of({.transfer = "1"}, 4);
  const TaskGraph graph = graph_of("bp", {.stages = 4}, costs.links());
  const StragglerCosts slow(costs, graph, {.slow_links = {{Rank{1}, Rank{2}, 5}}}, 0);
  for (const Task& task : graph.tasks()) {
    const bool between = (task.op == Op::send_forward && task.stage == Stage{1}) ||
                         (task.op == Op::send_backward && task.stage == Stage{2});
    EXPECT_EQ(slow.duration(task), (between ? 5 : 1) * costs.duration(task)) << label(task);
  }
}

// Interleaved: stages 0, 2 and 1, 3 share two ranks, so all three boundaries are one link.
TEST(StragglerCosts, SlowEveryBoundaryBetweenTheTwoRanks) {
  const StageCosts costs = costs_of({.transfer = "1"}, 4);
  const TaskGraph graph =
      graph_of("interleaved-1f1b", {.stages = 4, .chunks = 2, .micro_batches = 2}, costs.links());
  const StragglerCosts slow(costs, graph, {.slow_links = {{Rank{0}, Rank{1}, 2}}}, 0);
  for (const Task& task : graph.tasks()) {
    if (!is_send(task.op)) continue;
    EXPECT_EQ(slow.duration(task), ms(2)) << label(task);
  }
}

TEST(StragglerCosts, DrawForEachLinkAndDirectionAlone) {
  const StageCosts costs = costs_of({.transfer = "1"}, 3);
  const TaskGraph graph = graph_of("bp", {.stages = 3, .batches = 20}, costs.links());
  const Straggler links = Straggler::parse("lognormal:sigma=0.5,on=links");
  const StragglerCosts slow(costs, graph, {.stragglers = {links}}, 0);
  std::set<nanoseconds> lengths;
  int messages = 0;
  for (const Task& task : graph.tasks()) {
    if (!is_send(task.op)) {
      EXPECT_EQ(slow.duration(task), costs.duration(task)) << label(task);
      continue;
    }
    lengths.insert(slow.duration(task));
    ++messages;
  }
  EXPECT_EQ(messages, 80);
  EXPECT_EQ(lengths.size(), 80U);
}

TEST(StragglerCosts, DrawTheSameWhateverTheThreads) {
  const StageCosts costs = costs_of({.transfer = "0.3"}, 4);
  const TaskGraph graph =
      graph_of("1f1b", {.stages = 4, .micro_batches = 6, .batches = 2}, costs.links());
  const Disturbance all{
      .stragglers = {Straggler::parse("gamma:shape=3"), Straggler::parse("random:on=links"),
                     Straggler::parse("lognormal:node=2"),
                     Straggler::parse("pause:every=5,time=1")},
      .seed = 7};
  const auto time_of = [&](int run) {
    return makespan(sim::run(graph, StragglerCosts(costs, graph, all, run)));
  };
  std::vector<nanoseconds> in_turn;
  for (int run = 0; run < 40; ++run) in_turn.push_back(time_of(run));
  EXPECT_EQ(times_of_runs(0, 40, time_of), in_turn);
}

}  // namespace
}  // namespace unlatch::sim
