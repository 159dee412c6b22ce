// Splits: the dynamic programs and the search against all splits that there are.
#include "sim/split_search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Every way to cut `layers` into `stages`.
std::vector<Split> all_splits(int layers, int stages, int first = 0) {
  if (stages == 1) return {{{first, layers - 1, 0}}};
  std::vector<Split> all;
  for (int last = first; last <= layers - stages; ++last) {
    for (Split rest : all_splits(layers, stages - 1, last + 1)) {
      rest.insert(rest.begin(), {first, last, 0});
      all.push_back(std::move(rest));
    }
  }
  return all;
}

struct Problem {
  LayerFacts layers;
  PipelineFacts pipeline;
  std::optional<std::int64_t> limit;

  double sum(const std::vector<double>& values, const models::StageRange& stage) const {
    double total = 0;
    for (int j = stage.first; j <= stage.last; ++j) total += values[j];
    return total;
  }
  double work(const models::StageRange& stage, int k) const {
    double work = sum(layers.forward, stage) + sum(layers.backward, stage);
    work += pipeline.stages[k].recomputed * sum(layers.recompute, stage);
    if (stage.first > 0) work += layers.handover_in[stage.first];
    if (stage.last + 1 < layers.layers()) work += layers.handover_out[stage.last];
    return work;
  }
  double message(const models::StageRange& stage, int k) const {
    if (stage.last + 1 == layers.layers()) return 0;
    const Way& way = pipeline.stages[k].to_next;
    return way.latency_ns + way.ns_per_byte * layers.output_bytes[stage.last];
  }
  double bytes(const models::StageRange& stage, int k) const {
    const double input =
        stage.first == 0 ? layers.input_bytes : layers.output_bytes[stage.first - 1];
    double most = 0;
    for (const Holding& holding : pipeline.stages[k].holdings) {
      most = std::max(most, holding.tapes * sum(layers.tape_bytes, stage) +
                                holding.half_tapes * sum(layers.half_tape_bytes, stage) +
                                holding.inputs * input +
                                holding.versions * sum(layers.weight_bytes, stage));
    }
    return most + sum(layers.state_bytes, stage);
  }
  bool fits(const Split& split) const {
    for (std::size_t k = 0; limit && k < split.size(); ++k) {
      if (bytes(split[k], static_cast<int>(k)) > static_cast<double>(*limit)) return false;
    }
    return true;
  }
  double slowest(const Split& split) const {
    double most = 0;
    for (int k = 0; k < static_cast<int>(split.size()); ++k) {
      const double update = sum(layers.update, split[k]) / pipeline.micro_batches;
      most = std::max({most, work(split[k], k) + update, message(split[k], k)});
    }
    return most;
  }
  double filled_and_drained(const Split& split) const {
    double sum = (pipeline.micro_batches - 1) * slowest(split);
    for (int k = 0; k < static_cast<int>(split.size()); ++k) {
      sum += work(split[k], k) + 2 * message(split[k], k);
    }
    return sum;
  }
  double largest(const Split& split) const {
    double most = 0;
    for (std::size_t k = 0; k < split.size(); ++k) {
      most = std::max(most, bytes(split[k], static_cast<int>(k)));
    }
    return most;
  }
  StageSums sums() const { return {{layers}, pipeline}; }
};

Problem random_problem(unsigned seed) {
  std::mt19937 random(seed);
  const auto upto = [&](int most) { return static_cast<double>(random() % (most + 1)); };
  Problem problem;
  const int layers = 2 + static_cast<int>(upto(6));
  const int stages = 1 + static_cast<int>(upto(std::min(layers, 4) - 1));
  LayerFacts& facts = problem.layers;
  for (int j = 0; j < layers; ++j) {
    facts.forward.push_back(1 + upto(9));
    facts.backward.push_back(1 + upto(19));
    facts.recompute.push_back(facts.forward.back());
    facts.update.push_back(upto(3));
    facts.handover_in.push_back(upto(2));
    facts.handover_out.push_back(upto(2));
    facts.output_bytes.push_back(upto(40));
    facts.tape_bytes.push_back(upto(50));
    facts.half_tape_bytes.push_back(upto(10));
    facts.weight_bytes.push_back(upto(30));
    facts.state_bytes.push_back(upto(30));
  }
  facts.input_bytes = upto(20);
  for (int k = 0; k < stages; ++k) {
    StageFacts stage{.recomputed = upto(2) / 2, .holdings = {}, .to_next = {}};
    for (int h = 0; h < 2; ++h) {
      stage.holdings.push_back({.tapes = static_cast<int>(upto(3)),
                                .half_tapes = static_cast<int>(upto(2)),
                                .inputs = static_cast<int>(upto(2)),
                                .versions = 1 + static_cast<int>(upto(2))});
    }
    stage.to_next = {.latency_ns = upto(5), .ns_per_byte = upto(2)};
    problem.pipeline.stages.push_back(stage);
    problem.pipeline.ranks.push_back({k});
  }
  problem.pipeline.micro_batches = 1 + static_cast<int>(upto(7));
  if (upto(3) > 0) problem.limit = static_cast<std::int64_t>(100 + upto(400));
  for (StageFacts& stage : problem.pipeline.stages) stage.room = problem.limit;
  return problem;
}

/// The least value over the splits that fit; infinite where none does.
double least(const Problem& problem, const std::function<double(const Split&)>& value) {
  double best = INFINITY;
  for (const Split& split : all_splits(problem.layers.layers(), problem.sums().stages())) {
    if (problem.fits(split)) best = std::min(best, value(split));
  }
  return best;
}

TEST(Split, DynamicProgramsEqualTheBestOfAllSplits) {
  int refused = 0, limited = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed);
    const StageSums sums = problem.sums();
    const auto fastest = fastest_split(sums);
    const auto shortest = shortest_split(sums);
    const double slowest = least(problem, [&](const Split& s) { return problem.slowest(s); });
    ASSERT_EQ(fastest.has_value(), std::isfinite(slowest));
    ASSERT_EQ(shortest.has_value(), fastest.has_value());
    limited += problem.limit.has_value();
    refused += !fastest;
    Problem without = problem;
    without.limit.reset();
    const Split smallest = smallest_split(sums);
    EXPECT_DOUBLE_EQ(problem.largest(smallest),
                     least(without, [&](const Split& s) { return problem.largest(s); }));
    if (!fastest) continue;
    EXPECT_TRUE(problem.fits(*fastest));
    EXPECT_DOUBLE_EQ(problem.slowest(*fastest), slowest);
    EXPECT_TRUE(problem.fits(*shortest));
    EXPECT_DOUBLE_EQ(problem.filled_and_drained(*shortest),
                     least(problem, [&](const Split& s) { return problem.filled_and_drained(s); }));
  }
  EXPECT_GT(refused, 10) << "some limits must be too small";
  EXPECT_GT(limited - refused, 100) << "and many large enough";
}

TEST(Split, SaysWhenThereAreFewerLayersThanStages) {
  Problem problem = random_problem(1);
  problem.pipeline.stages.resize(static_cast<std::size_t>(problem.layers.layers()) + 1);
  EXPECT_THAT(error_of([&] { fastest_split(problem.sums()); }),
              AllOf(HasSubstr("cannot fill"), HasSubstr("at least one layer")));
}

TEST(Split, TextIsThatOfTheFlag) { EXPECT_EQ(text_of({{0, 4, 0}, {5, 7, 0}, {8, 8, 0}}), "5/3/1"); }

/// A score that no sum foretells: the floor and a number between 0 and 99 drawn from the cuts.
SplitScore rugged(const StageSums& sums, const Split& split) {
  std::size_t mixed = 0;
  for (const models::StageRange& stage : split) {
    mixed = (mixed ^ static_cast<std::size_t>(stage.last + 1)) * 0x9e3779b97f4a7c15u;
  }
  return {.excess_bytes = 0,
          .period_ns = sums.floor(split) + static_cast<double>(mixed >> 57),
          .peak_bytes = 0};
}

TEST(SplitSearch, TriesAllSplitsOfSmallModelsThatCouldBeBetter) {
  int left_out = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed);
    const StageSums sums = problem.sums();
    const auto score = [&](const Split& split) { return rugged(sums, split); };
    const auto all = all_splits(sums.layers(), sums.stages());
    SplitScore best = score(all.front());
    for (const Split& split : all) best = std::min(best, score(split));
    for (const bool floor_holds : {true, false}) {
      const SplitAnswer answer = best_split(sums, {.floor_holds = floor_holds}, score);
      EXPECT_TRUE(answer.all);
      EXPECT_EQ(answer.score, best);
      EXPECT_EQ(score(answer.split), best);
      EXPECT_LE(answer.simulated, static_cast<int>(all.size()));
      if (!floor_holds) {
        EXPECT_EQ(answer.simulated, static_cast<int>(all.size()));
      }
      left_out += static_cast<int>(all.size()) - answer.simulated;
    }
  }
  EXPECT_GT(left_out, 0) << "the floor must spare some";
}

TEST(SplitSearch, FloorIsTheWorkOfTheBusiestRank) {
  Problem problem;
  problem.layers = {.forward = {100, 200, 300, 400},
                    .backward = {200, 400, 600, 800},
                    .recompute = {0, 0, 0, 0},
                    .update = {9, 9, 9, 9},
                    .handover_in = {0, 0, 0, 0},
                    .handover_out = {0, 0, 0, 0},
                    .output_bytes = {0, 0, 0, 0},
                    .tape_bytes = {0, 0, 0, 0},
                    .half_tape_bytes = {0, 0, 0, 0},
                    .weight_bytes = {0, 0, 0, 0},
                    .state_bytes = {0, 0, 0, 0},
                    .input_bytes = 0};
  problem.pipeline.stages.resize(4);
  problem.pipeline.ranks = {{0, 3}, {1, 2}};  // a V: 1500 of work on either rank, 8 tasks
  problem.pipeline.micro_batches = 5;
  const Split one_each{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {3, 3, 0}};
  EXPECT_EQ(problem.sums().floor(one_each), 5 * (1500 - 8));
}

TEST(SplitSearch, OfManySplitsNoneNearbyIsBetter) {
  Problem problem;
  std::mt19937 random(7);
  for (int j = 0; j < 60; ++j) {
    problem.layers.forward.push_back(100 + random() % 900);
    problem.layers.backward.push_back(100 + random() % 900);
    for (auto* none :
         {&problem.layers.recompute, &problem.layers.update, &problem.layers.handover_in,
          &problem.layers.handover_out, &problem.layers.output_bytes, &problem.layers.tape_bytes,
          &problem.layers.half_tape_bytes, &problem.layers.weight_bytes,
          &problem.layers.state_bytes}) {
      none->push_back(0);
    }
  }
  problem.pipeline.stages.resize(8);
  for (int k = 0; k < 8; ++k) problem.pipeline.ranks.push_back({k});
  problem.pipeline.micro_batches = 4;
  const StageSums sums = problem.sums();
  // The first stage counts double, which the sums do not know.
  const auto score = [&](const Split& split) {
    return SplitScore{.excess_bytes = 0,
                      .period_ns = std::max(problem.slowest(split), 2 * problem.work(split[0], 0)),
                      .peak_bytes = 0};
  };
  const SplitAnswer answer = best_split(sums, {}, score);
  EXPECT_FALSE(answer.all);
  ASSERT_TRUE(answer.sums.has_value());
  EXPECT_LT(answer.score.period_ns, score(*answer.sums).period_ns);
  for (std::size_t k = 1; k < answer.split.size(); ++k) {
    for (const int by : {-1, 1}) {
      Split moved = answer.split;
      moved[k].first += by;
      moved[k - 1].last += by;
      if (moved[k].layers() < 1 || moved[k - 1].layers() < 1) continue;
      EXPECT_GE(score(moved).period_ns, answer.score.period_ns) << text_of(moved);
    }
  }
}

TEST(SplitSearch, FindsASplitThatFitsWhereTheFastestDoesNot) {
  unsigned seed = 0;
  const auto splits_of = [](const Problem& problem) {
    return all_splits(problem.layers.layers(), problem.sums().stages());
  };
  while (splits_of(random_problem(seed)).size() < 10) ++seed;
  const Problem problem = random_problem(seed);
  const StageSums sums = problem.sums();
  const std::vector<Split> all = splits_of(problem);
  // Only one split keeps to the limit, and it is the slowest.
  const auto score = [&](const Split& split) {
    const bool fits = split == all.back();
    return SplitScore{.excess_bytes = fits ? 0 : 5,
                      .period_ns = sums.floor(split) + (fits ? 1e6 : 0.0),
                      .peak_bytes = 0};
  };
  const SplitAnswer answer = best_split(sums, {.floor_holds = true}, score);
  EXPECT_EQ(answer.split, all.back());
  EXPECT_EQ(answer.score.excess_bytes, 0);
}

}  // namespace
}  // namespace unlatch::sim
