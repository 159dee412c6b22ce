// Stragglers: what a draw depends on, and what it multiplies.
#include "sim/stragglers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>

#include "schedules/error.h"
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
  EXPECT_THAT(error_of([] { parse_slow("4:2", 4); }), AllOf(HasSubstr("'4'"), HasSubstr("0..3")));
  EXPECT_THAT(error_of([] { parse_slow("2", 4); }), HasSubstr("RANK:FACTOR"));
  EXPECT_THAT(error_of([] { parse_slow("2:-1", 4); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([] {
                slow_factors({{Rank{1}, 2}, {Rank{1}, 3}}, 4);
              }),
              HasSubstr("rank 1 twice"));
}

TEST(Straggler, ReadsSlowRanks) {
  EXPECT_EQ(parse_slow("2:1.5", 4), (SlowRank{Rank{2}, 1.5}));
  EXPECT_THAT(slow_factors({{Rank{2}, 1.5}}, 4), ElementsAre(1, 1, 1.5, 1));
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
  EXPECT_THAT(error_of([] { Straggler::parse("gamma:shape=0"); }), HasSubstr("greater than 0"));
}

TEST(StragglerCosts, MultiplyAllComputeOfAStepAndNoTransfer) {
  const StageCosts costs = costs_of({.update = "1", .transfer = "1"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2, .batches = 2}, costs.links());
  const Straggler always = Straggler::parse("random:probability=1,factor=3");
  const StragglerCosts slow(costs, graph, {1.0, 1.5}, always, 0, 0);
  for (const Task& task : graph.tasks()) {
    const double factor = !is_compute(task.op) ? 1 : graph.rank(task) == Rank{0} ? 3 : 4.5;
    EXPECT_EQ(to_ms(slow.duration(task)), factor * to_ms(costs.duration(task))) << label(task);
  }
}

TEST(StragglerCosts, RefuseATaskThatNanosecondsCannotHold) {
  const StageCosts costs = costs_of({.forward = "1000000s"}, 2);
  const TaskGraph graph = graph_of("bp", {.stages = 2});
  const std::string slow = error_of([&] { StragglerCosts(costs, graph, {1, 1e6}, {}, 0, 0); });
  EXPECT_THAT(slow, AllOf(HasSubstr("1000000000 ms"), HasSubstr("126 years")));
  const StragglerCosts both(costs, graph, {1, 1e6}, Straggler::parse("random:probability=1"), 0, 0);
  EXPECT_THAT(error_of([&] { run(graph, both); }), HasSubstr("126 years"));
}

TEST(StragglerCosts, ShareOneDrawAmongTheTasksOfALocalStep) {
  const StageCosts costs = unit_costs(3);
  const TaskGraph graph = graph_of("dsp", {.stages = 3, .batches = 40});
  const Straggler draw = Straggler::parse("lognormal:sigma=0.5");
  const StragglerCosts slow(costs, graph, {1, 1, 1}, draw, 5, 1);
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
  const StragglerCosts slow(costs, graph, {1, 2}, {}, 0, 0);
  ASSERT_NE(slow.table(), nullptr);
  EXPECT_EQ(makespan(run(graph, slow)), ms(3 + 6));
  const StragglerCosts random(costs, graph, {1, 2}, Straggler::parse("random"), 0, 0);
  EXPECT_EQ(random.table(), nullptr);
}

}  // namespace
}  // namespace unlatch::sim
