// The reference values of the methods' papers and derivations (periods, formulas, stragglers).
//
// K stages of F=1, B=2, R=1 unless said otherwise, in milliseconds a batch.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "sim/straggler_costs.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

struct Period {
  const char* spec;
  int stages;
  const char* overlap;
  double expected;
};

class SteadyPeriods : public testing::TestWithParam<Period> {};

TEST_P(SteadyPeriods, AreThoseOfTheTable) {
  const Period& row = GetParam();
  const StageCosts costs = costs_of({.overlap = row.overlap}, row.stages);
  EXPECT_DOUBLE_EQ(period_ms(row.spec, {.stages = row.stages}, costs), row.expected)
      << row.spec << " K=" << row.stages;
}

std::vector<Period> periods() {
  struct Row {
    const char* spec;
    const char* overlap;
    double of_2, of_3, of_4, of_8;
  };
  std::vector<Period> all;
  for (const Row& row : {Row{"bp", "1", 6, 9, 12, 24}, Row{"ddg", "1", 4, 5, 6, 10},
                         Row{"ddg:form=mailbox", "1", 4, 4, 4, 4}, Row{"fr", "1", 5, 6, 7, 11},
                         Row{"fr:form=mailbox", "1", 4, 5, 5, 5}, Row{"fdg", "1", 3, 3, 3, 3},
                         Row{"fdg:form=queue", "1", 3, 3, 3, 3}, Row{"dsp", "1", 3, 3, 3, 3},
                         Row{"dsp:form=lockstep", "1", 3, 3, 3, 3}, Row{"dsp", "0", 4, 4, 4, 4}}) {
    all.push_back({row.spec, 2, row.overlap, row.of_2});
    all.push_back({row.spec, 3, row.overlap, row.of_3});
    all.push_back({row.spec, 4, row.overlap, row.of_4});
    all.push_back({row.spec, 8, row.overlap, row.of_8});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(WithoutTransfers, SteadyPeriods, testing::ValuesIn(periods()));

TEST(ReferenceValues, PeriodsOfFourStagesWithTransfers) {
  struct Row {
    const char* transfer;
    double bp, ddg, fdg_barrier, fdg_bf_queue, dsp2, dsp3, dsp5;
  };
  const std::vector<Row> rows{
      {"0", 12, 6, 3, 3, 3, 3, 3},         {"0.5", 15, 8, 3.5, 3.5, 3, 3, 3},
      {"1", 18, 10, 4, 4, 3, 3, 3},        {"1.5", 21, 12, 4.5, 4.5, 3, 3, 3},
      {"2", 24, 14, 5, 5, 24.0 / 7, 3, 3}, {"4", 36, 22, 7, 7, 36.0 / 7, 4, 4}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.transfer);
    const StageCosts costs = costs_of({.transfer = row.transfer}, 4);
    const auto period = [&](const char* spec) { return period_ms(spec, {.stages = 4}, costs); };
    EXPECT_DOUBLE_EQ(period("bp"), row.bp);
    EXPECT_DOUBLE_EQ(period("ddg"), row.ddg);
    EXPECT_DOUBLE_EQ(period("fdg"), row.fdg_barrier);
    EXPECT_DOUBLE_EQ(period("fdg:form=queue,order=bf"), row.fdg_bf_queue);
    EXPECT_DOUBLE_EQ(period("dsp:queues=unbounded"), row.dsp2);
    EXPECT_DOUBLE_EQ(period("dsp:staleness=9/6/3/0,queues=unbounded"), row.dsp3);
    EXPECT_DOUBLE_EQ(period("dsp:staleness=15/10/5/0,queues=unbounded"), row.dsp5);
  }
}

TEST(ReferenceValues, GPipeTakesTheTimeOfItsFormula) {  // decoupled.md 3
  struct Variant {
    const char* recompute;
    int parts;
  };
  for (const int stages : {2, 3, 4, 8}) {
    for (const auto& [recompute, parts] :
         {Variant{"except_last", 1}, Variant{"except_last", 4}, Variant{"always", 4},
          Variant{"never", 4}, Variant{"except_last", 32}, Variant{"never", 32}}) {
      const std::string word = recompute;
      const double f = 1.0 / parts, b = 2.0 / parts, r = word == "never" ? 0 : f;
      const double expected = (parts + stages - 1) * f + parts * (r + b) -
                              (word == "except_last" ? r : 0) + (stages - 1) * b;
      const StageCosts costs = costs_of({.forward = fmt::format("{}", f)}, stages);
      EXPECT_DOUBLE_EQ(period_ms(fmt::format("gpipe:recompute={}", word),
                                 {.stages = stages, .micro_batches = parts}, costs),
                       expected)
          << word << " K=" << stages << " M=" << parts;
    }
  }
}

/// decoupled.md 8.7, in nanoseconds.
double dsp_cycle_formula(const StageTimes& times, const std::vector<int>& m) {
  const int stages = times.stages();
  const auto step = [&](int k) {
    nanoseconds phi = times.forward[k];
    if (m[k] > 0) phi = length_beside(times.forward[k], times.recompute[k], times.overlap[k]);
    return (phi + times.backward[k]).count();
  };
  double period = 0;
  for (int k = 0; k < stages; ++k) {
    std::int64_t work = 0;
    for (int l = k; l < stages; ++l) {
      work += step(l);
      if (l > k) {
        work += (times.activation_transfer[l - 1] + times.gradient_transfer[l - 1]).count();
      }
      period = std::max(period, static_cast<double>(work) / (m[k] - m[l] + 1));
    }
  }
  for (int k = 0; k + 1 < stages; ++k) {
    period = std::max({period, static_cast<double>(times.activation_transfer[k].count()),
                       static_cast<double>(times.gradient_transfer[k].count())});
  }
  return period;
}

TEST(ReferenceValues, DspFollowsItsCycleFormulaOnRandomCosts) {
  std::mt19937 random(2024);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int instance = 0; instance < 200; ++instance) {
    const int stages = 2 + below(4);
    StageTimes times = stage_times({}, stages);
    for (int k = 0; k < stages; ++k) {
      times.forward[k] = nanoseconds(1 + below(20));
      times.backward[k] = nanoseconds(1 + below(40));
      times.recompute[k] = nanoseconds(1 + below(20));
      times.overlap[k] = below(3) * 0.5;
      if (k + 1 == stages) continue;
      times.activation_transfer[k] = nanoseconds(below(30));
      times.gradient_transfer[k] = nanoseconds(below(30));
    }
    std::vector<int> m(stages, 0);
    for (int k = stages - 2; k >= 0; --k) m[k] = m[k + 1] + below(5);
    const StageCosts costs(times);
    const std::string spec = fmt::format("dsp:staleness={},queues=unbounded", fmt::join(m, "/"));
    const SteadyState steady =
        steady_state(any_batches(spec, {.stages = stages}, costs.links()), costs);
    ASSERT_TRUE(steady.exact) << spec;
    EXPECT_NEAR(steady.batch_period_ns, dsp_cycle_formula(times, m), 1e-9) << spec;
  }
}

TEST(ReferenceValues, ASlowRankSetsThePace) {  // decoupled.md 12.3, rank 1 of 3
  struct Row {
    double factor, bp, gpipe, ddg, fr, fdg, dsp;
  };
  for (const Row& row : {Row{1.2, 9.6, 6.0, 5.6, 6.8, 3.6, 3.6},
                         Row{1.5, 10.5, 7.1, 6.5, 8, 4.5, 4.5}, Row{2, 12, 9, 8, 10, 6, 6}}) {
    SCOPED_TRACE(row.factor);
    const auto period = [&](const char* spec, int parts) {
      const StageCosts costs = costs_of({.forward = fmt::format("{}", 1.0 / parts)}, 3);
      const Shape shape{.stages = 3, .micro_batches = parts};
      const StragglerCosts slow(costs, graph_of(spec, shape), {.slow = {1, row.factor, 1}}, 0);
      return steady_state(any_batches(spec, shape), slow).batch_period_ns / 1e6;
    };
    EXPECT_DOUBLE_EQ(period("bp", 1), row.bp);
    EXPECT_NEAR(period("gpipe:recompute=except_last", 4), row.gpipe, 0.051);  // one decimal
    EXPECT_DOUBLE_EQ(period("ddg", 1), row.ddg);
    EXPECT_DOUBLE_EQ(period("fr", 1), row.fr);
    EXPECT_DOUBLE_EQ(period("fdg", 1), row.fdg);
    EXPECT_DOUBLE_EQ(period("dsp", 1), row.dsp);
  }
}

struct RandomRow {
  const char* factor;
  double bp, gpipe, ddg, fr, fdg, dsp4, dsp6, dsp10;
};

class RandomStragglers : public testing::TestWithParam<RandomRow> {};

TEST_P(RandomStragglers, CostWhatTheTableSays) {  // decoupled.md 12.3
  const RandomRow& row = GetParam();
  const Straggler straggler =
      Straggler::parse(fmt::format("random:probability={},factor={}", 1.0 / 3, row.factor));
  const auto expect = [&](const char* spec, int parts, double expected) {
    const StageCosts costs = costs_of({.forward = fmt::format("{}", 1.0 / parts)}, 3);
    const TaskGraph graph = graph_of(spec, {.stages = 3, .micro_batches = parts, .batches = 20000});
    const StragglerCosts random(costs, graph, {.stragglers = {straggler}}, 0);
    const double period = mean_period(graph, run(graph, random)).batch_period_ns / 1e6;
    EXPECT_NEAR(period / expected, 1, 0.005) << spec;
  };
  expect("bp", 1, row.bp);
  expect("gpipe:recompute=except_last", 4, row.gpipe);
  expect("ddg", 1, row.ddg);
  expect("fr", 1, row.fr);
  expect("fdg", 1, row.fdg);
  expect("dsp:staleness=4/2/0,queues=1/1/0", 1, row.dsp4);
  expect("dsp:staleness=6/3/0,queues=2/2/0", 1, row.dsp6);
  expect("dsp:staleness=10/5/0,queues=3/3/0", 1, row.dsp10);
}

INSTANTIATE_TEST_SUITE_P(
    All, RandomStragglers,
    testing::Values(RandomRow{"1", 9, 5.25, 5, 6, 3, 3, 3, 3},
                    RandomRow{"1.2", 9.6, 5.8222, 5.4815, 6.5333, 3.4222, 3.2301, 3.2164, 3.2114},
                    RandomRow{"1.5", 10.5, 6.6806, 6.2037, 7.3333, 4.0556, 3.6444, 3.5838, 3.5592},
                    RandomRow{"2", 12, 8.1111, 7.4074, 8.8148, 5.1111, 4.4133, 4.2597, 4.1891}));

}  // namespace
}  // namespace unlatch::sim
