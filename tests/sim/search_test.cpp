// The search: holdings, the front, placements, and winners against all that could be tried.
#include "sim/search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "sim/placements.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::vector<Holding>> holdings_of(std::string_view spec, const Shape& shape) {
  return holdings_by_stage(ScheduleSpec::parse(spec).make(shape).build());
}

TEST(Holdings, CountWhatTheSchedulesPromise) {
  const Shape four{.stages = 4, .micro_batches = 8};
  const auto tapes = [](int count) { return ElementsAre(Holding{.tapes = count}); };
  EXPECT_THAT(holdings_of("1f1b", four), ElementsAre(tapes(4), tapes(3), tapes(2), tapes(1)));
  EXPECT_THAT(holdings_of("gpipe", four), ElementsAre(tapes(8), tapes(8), tapes(8), tapes(8)));
  // A stage k of pipedream keeps K-k tapes, each with the weights that its F read.
  const auto pipedream = holdings_of("pipedream", {.stages = 2, .batches = 8});
  EXPECT_THAT(pipedream[1], ElementsAre(Holding{.tapes = 1}));
  EXPECT_THAT(pipedream[0], testing::Contains(Holding{.tapes = 2, .versions = 2}));
  // zb-h1, last rank: F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 ..: in I3 three tapes wait for their W, after
  // it four.
  EXPECT_THAT(holdings_of("zb-h1", four)[3],
              UnorderedElementsAre(Holding{.tapes = 1, .half_tapes = 3},
                                   Holding{.tapes = 0, .half_tapes = 4}));
}

TEST(Holdings, AreThoseOfEachStageWhereARankHasSeveral) {
  // Breadth first: every stage does all F of a batch before a B.
  const auto looped = holdings_of("looped-bfs", {.stages = 4, .chunks = 2, .micro_batches = 3});
  ASSERT_EQ(looped.size(), 4U);
  EXPECT_THAT(looped, testing::Each(ElementsAre(Holding{.tapes = 3})));
}

TEST(Holdings, TheLargestMomentCountsWhateverIsLarge) {
  const std::vector<Holding> two{{.tapes = 3, .half_tapes = 0, .inputs = 1},
                                 {.tapes = 1, .half_tapes = 4, .inputs = 0, .versions = 2}};
  EXPECT_EQ(most_bytes(two, {.tape = 10, .half_tape = 1, .input = 2, .version = 5, .always = 7}),
            30 + 2 + 5 + 7);
  EXPECT_EQ(most_bytes(two, {.tape = 10, .half_tape = 9, .input = 2, .version = 5, .always = 7}),
            10 + 36 + 10 + 7);
}

TEST(Pareto, MembersAreUnbeatenAndOthersAreBeaten) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Price> prices;
    for (int n = 0; n < 30; ++n) {
      prices.push_back({.period_ns = static_cast<double>(random() % 8),
                        .peak_bytes = static_cast<std::int64_t>(random() % 8),
                        .staleness = static_cast<int>(random() % 4)});
    }
    const std::vector<bool> front = pareto_front(prices);
    ASSERT_EQ(front.size(), prices.size());
    for (std::size_t i = 0; i < prices.size(); ++i) {
      bool beaten = false, repeated = false, beaten_by_member = false;
      for (std::size_t j = 0; j < prices.size(); ++j) {
        const Price &a = prices[j], &b = prices[i];
        const bool no_worse = a.period_ns <= b.period_ns && a.peak_bytes <= b.peak_bytes &&
                              a.staleness <= b.staleness;
        beaten |= no_worse && a != b;
        beaten_by_member |= no_worse && a != b && front[j];
        repeated |= j < i && a == b;
      }
      EXPECT_EQ(front[i], !beaten && !repeated);
      EXPECT_EQ(beaten, beaten_by_member);
    }
  }
  EXPECT_TRUE(pareto_front({}).empty());
}

TEST(Placements, PutRanksOnNodesInEveryOrder) {
  const Cluster two_by_two = parse_cluster(R"({"name": "two nodes",
    "device_types": {"X": {"tflops": {"fp32": 1}, "memory": "1GiB", "memory_bandwidth": "1GB/s"}},
    "node": {"devices": {"type": "X", "count": 2}, "switches": ["bus"],
             "links": [{"from": "device", "to": "bus", "bandwidth": "1GB/s", "latency": "1us"}]},
    "nodes": 2,
    "network": {"switches": ["net"],
                "links": [{"from": "node.bus", "to": "net", "bandwidth": "1GB/s",
                           "latency": "1us"}]}})",
                                           "test");
  const auto orders = [&](int replicas, int ranks) {
    std::vector<std::pair<std::string, std::vector<int>>> all;
    for (const Placement& placement : placements(two_by_two, replicas, ranks)) {
      all.emplace_back(placement.how, placement.devices);
    }
    return all;
  };
  using testing::Pair;
  EXPECT_THAT(orders(1, 4), ElementsAre(Pair("in order", ElementsAre(0, 1, 2, 3)),
                                        Pair("nodes in turn", ElementsAre(0, 2, 1, 3))));
  // Two pipelines of two: in a node each; across nodes, which also puts the replicas of a stage
  // side by side.
  EXPECT_THAT(orders(2, 2), ElementsAre(Pair("in order", ElementsAre(0, 1, 2, 3)),
                                        Pair("nodes in turn", ElementsAre(0, 2, 1, 3))));
  EXPECT_THAT(orders(1, 2), ElementsAre(Pair("in order", ElementsAre(0, 1))));
  EXPECT_THAT(orders(1, 3), ElementsAre(Pair("in order", ElementsAre(0, 1, 2)),
                                        Pair("nodes in turn", ElementsAre(0, 2, 1))));
  const Cluster turned = two_by_two.with_placement({3, 2, 1, 0});
  EXPECT_THAT(placements(turned, 1, 2).front().devices, ElementsAre(3, 2));
  EXPECT_THAT(error_of([&] {
                two_by_two.with_placement({0, 4});
              }),
              HasSubstr("there is no device 4, only 0 to 3"));
  EXPECT_THAT(error_of([&] {
                two_by_two.with_placement({1, 1});
              }),
              HasSubstr("device 1 has a rank already"));
}

/// A chain of layers with B = 2F and a message a boundary, all in microseconds; tapes as large as
/// F is long.
struct Chain {
  std::vector<double> forward;
  std::vector<double> message;  ///< behind each layer
  std::vector<double> weight = {};

  SplitCosts costs(const TaskGraph& tasks, const Split& split) const {
    const Shape& shape = tasks.shape();
    SplitCosts costs;
    StageTimes& times = costs.times;
    const auto us = [](double t) { return nanoseconds(std::llround(t * 1e3)); };
    for (const Stage k : up_to<Stage>(shape.stages)) {
      const auto& range = split[shape.model_stage(k).value];
      double f = 0, w = 0;
      for (int j = range.first; j <= range.last; ++j) {
        f += forward[j];
        w += weight.empty() ? 0 : weight[j];
      }
      times.forward.push_back(us(f));
      times.backward.push_back(us(2 * f));
      times.backward_input.push_back(us(f));
      times.backward_weight.push_back(us(f));
      times.recompute.push_back(us(f));
      times.update.push_back(us(0));
      times.overlap.push_back(0);
      costs.sizes.activation.push_back(std::llround(1000 * f));
      costs.sizes.weight.push_back(std::llround(w));
      if (k.value + 1 == shape.stages) break;
      const double t = shape.is_last(k) ? 0 : message[range.last];
      times.activation_transfer.push_back(us(t));
      times.gradient_transfer.push_back(us(t));
    }
    return costs;
  }

  LayerCosts layer_costs(const TaskGraph& tasks) const {
    LayerCosts costs;
    LayerFacts& facts = costs.layers.emplace_back();
    for (std::size_t j = 0; j < forward.size(); ++j) {
      facts.forward.push_back(forward[j] * 1e3);
      facts.backward.push_back(2e3 * forward[j]);
      facts.recompute.push_back(forward[j] * 1e3);
      facts.tape_bytes.push_back(1000 * forward[j]);
      facts.output_bytes.push_back(message[j]);
      facts.weight_bytes.push_back(weight.empty() ? 0 : weight[j]);
      for (auto* none : {&facts.update, &facts.handover_in, &facts.handover_out,
                         &facts.half_tape_bytes, &facts.state_bytes}) {
        none->push_back(0);
      }
    }
    costs.ways.assign(static_cast<std::size_t>(tasks.shape().stages_a_copy() - 1),
                      {.latency_ns = 0, .ns_per_byte = 1e3});
    costs.floor_holds = true;
    costs.of = [this, &tasks](const Split& split) { return this->costs(tasks, split); };
    return costs;
  }

  Candidate candidate(std::string_view spec, const Shape& shape) const {
    return {
        .spec = ScheduleSpec::parse(spec),
        .shape = shape,
        .placings = {{.how = "in order", .devices = {}, .costs = [this](const TaskGraph& tasks) {
                        return layer_costs(tasks);
                      }}}};
  }
};

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

TEST(Search, WinnersEqualTheBestOfAllSplits) {
  const Chain chain{.forward = {5, 1, 1, 3, 1, 2, 4, 2}, .message = {6, 1, 4, 1, 3, 1, 1, 0}};
  const int layers = 8;
  std::vector<Candidate> candidates;
  for (const int micro_batches : {2, 4, 8}) {
    for (const char* spec : {"1f1b", "gpipe", "gpipe:recompute=except_last", "zb-h1", "zb-v",
                             "chimera", "interleaved-1f1b", "pipedream-2bw"}) {
      const bool wants_four =
          std::string_view(spec) == "chimera" || std::string_view(spec) == "pipedream-2bw";
      if (wants_four && micro_batches < 4) continue;
      const bool two =
          std::string_view(spec) == "zb-v" || std::string_view(spec).starts_with("int");
      candidates.push_back(chain.candidate(
          spec, {.stages = 4, .chunks = two ? 2 : 1, .micro_batches = micro_batches}));
    }
  }
  for (const char* spec : {"ddg", "fr", "fdg", "dsp:staleness=3/2/1/0", "pipedream"}) {
    candidates.push_back(chain.candidate(spec, {.stages = 4, .batches = 32}));
  }
  const std::vector<Finding> findings = search(candidates, {});
  int moved = 0;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Candidate& candidate = candidates[c];
    SCOPED_TRACE(fmt::format("{} M={}", candidate.spec.text(), candidate.shape.micro_batches));
    const Finding& finding = findings[c];
    ASSERT_FALSE(finding.refused) << finding.reason;
    const TaskGraph tasks = candidate.spec.make(candidate.shape).build();
    double best = INFINITY;
    for (const Split& split : all_splits(layers, candidate.shape.stages)) {
      const StageCosts costs(chain.costs(tasks, split).times);
      best = std::min(best, period_ms(candidate.spec.text(), candidate.shape, costs));
    }
    EXPECT_DOUBLE_EQ(finding.price.period_ns / 1e6, best) << text_of(finding.split.split);
    EXPECT_TRUE(finding.split.all);
    moved += text_of(finding.split.split) != text_of(*finding.split.sums);
    double parts = 0;
    for (const BatchTime::Part& part : finding.time.parts()) {
      EXPECT_GE(part.ns, 0) << part.name;
      parts += part.ns;
    }
    EXPECT_NEAR(parts, finding.price.period_ns, 1);
  }
  EXPECT_GT(moved, 0) << "the slowest stage alone must not decide everywhere";
}

std::int64_t peak_of(const Candidate& candidate, const SplitCosts& costs) {
  const StageCosts model(costs.times);
  const TaskGraph graph = graph_of(candidate.spec.text(), candidate.shape, model.links());
  std::int64_t peak = 0;
  for (const RankMemory& rank : memory(graph, run(graph, model), costs.sizes)) {
    peak = std::max(peak, rank.peak.bytes);
  }
  return peak;
}

TEST(Search, WinnersUnderALimitEqualTheBestOfAllSplitsThatFit) {
  const Chain chain{.forward = {5, 1, 1, 3, 1, 2, 4, 2},
                    .message = {6, 1, 4, 1, 3, 1, 1, 0},
                    .weight = {900, 100, 4000, 100, 500, 100, 2000, 3000}};
  int fitting = 0, refused = 0;
  for (const std::int64_t limit : {9'000, 13'000, 18'000, 25'000, 40'000}) {
    std::vector<Candidate> candidates;
    for (const char* spec : {"1f1b", "gpipe:recompute=always", "zb-h1", "chimera"}) {
      candidates.push_back(chain.candidate(spec, {.stages = 4, .micro_batches = 4}));
    }
    for (const char* spec : {"zb-v", "interleaved-1f1b"}) {
      candidates.push_back(chain.candidate(spec, {.stages = 4, .chunks = 2, .micro_batches = 4}));
    }
    for (const char* spec : {"pipedream", "fdg", "dsp"}) {
      candidates.push_back(chain.candidate(spec, {.stages = 4, .batches = 32}));
    }
    const std::vector<Finding> findings = search(candidates, {.memory = limit, .staleness = {}});
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const Candidate& candidate = candidates[c];
      SCOPED_TRACE(fmt::format("{} limit {}", candidate.spec.text(), limit));
      const TaskGraph tasks = candidate.spec.make(candidate.shape).build();
      double best = INFINITY;
      for (const Split& split : all_splits(8, 4)) {
        const SplitCosts costs = chain.costs(tasks, split);
        if (peak_of(candidate, costs) > limit) continue;
        const StageCosts model(costs.times);
        best = std::min(best, period_ms(candidate.spec.text(), candidate.shape, model));
      }
      EXPECT_EQ(findings[c].refused.has_value(), std::isinf(best)) << findings[c].reason;
      ++(std::isinf(best) ? refused : fitting);
      if (std::isinf(best)) continue;
      EXPECT_DOUBLE_EQ(findings[c].price.period_ns / 1e6, best);
      EXPECT_LE(findings[c].price.peak_bytes, limit);
    }
  }
  EXPECT_GT(fitting, 15);
  EXPECT_GT(refused, 5);
}

// O13: heavy ends. The only split whose slowest stage takes 2 is 1/2/2/1.
TEST(Search, O13GivesHeavyEndsStagesOfTheirOwn) {
  const Chain chain{.forward = {2, 1, 1, 1, 1, 2}, .message = {0, 0, 0, 0, 0, 0}};
  const auto findings = search({chain.candidate("1f1b", {.stages = 4, .micro_batches = 8})}, {});
  EXPECT_EQ(text_of(findings[0].split.split), "1/2/2/1");
  EXPECT_EQ(findings[0].price.period_ns, 66e3);
}

TEST(Search, KeepsToTheLimitsOrSaysWhyNot) {
  const Chain chain{.forward = {1, 1, 1, 1, 1, 1, 1, 1}, .message = {0, 0, 0, 0, 0, 0, 0, 0}};
  const std::vector<Candidate> candidates{
      chain.candidate("1f1b", {.stages = 4, .micro_batches = 8}),
      chain.candidate("gpipe", {.stages = 4, .micro_batches = 8}),
      chain.candidate("dsp", {.stages = 4, .batches = 32}),
      chain.candidate("1f1b", {.stages = 9, .micro_batches = 8}),
      chain.candidate("zb-v", {.stages = 4, .chunks = 1, .micro_batches = 8}),
      chain.candidate("asgd", {.stages = 2, .batches = 4, .replicas = 2})};
  // Even stages of 2 layers: 1f1b's rank 0 has 4 tapes of 2000. With 1 layer there it has 4000,
  // and 3 tapes of 2 layers on rank 1 are 6000.
  const auto findings = search(candidates, {.memory = 6000, .staleness = 5});
  ASSERT_FALSE(findings[0].refused) << findings[0].reason;
  EXPECT_EQ(findings[0].price.peak_bytes, 6000);
  EXPECT_EQ(findings[0].split.split.front().layers(), 1);
  EXPECT_EQ(findings[1].refused, Refusal::memory);
  EXPECT_THAT(findings[1].reason, AllOf(HasSubstr("2/2/2/2, needs"), HasSubstr("on rank 0"),
                                        HasSubstr("the limit is 5.85938 KiB")));
  EXPECT_EQ(findings[2].refused, Refusal::staleness);
  EXPECT_THAT(findings[2].reason, HasSubstr("forward staleness 6, the limit is 5"));
  EXPECT_EQ(findings[3].refused, Refusal::shape);
  EXPECT_THAT(findings[3].reason, HasSubstr("8 layers cannot fill 9 stages"));
  EXPECT_EQ(findings[4].refused, Refusal::shape);
  EXPECT_THAT(findings[4].reason, HasSubstr("zb-v runs 2 stages a rank"));
  EXPECT_EQ(findings[5].refused, Refusal::shape);
  EXPECT_THAT(findings[5].reason, HasSubstr("server's order"));
  EXPECT_THAT(ranking(findings), ElementsAre(0));
  EXPECT_TRUE(findings[0].on_front);
}

TEST(Search, TakesAGivenSplitAsItIs) {
  const Chain chain{.forward = {1, 1, 1, 1}, .message = {0, 0, 0, 0}};
  Candidate candidate = chain.candidate("1f1b", {.stages = 2, .micro_batches = 4});
  candidate.placings[0].costs = [&](const TaskGraph& tasks) {
    LayerCosts costs = chain.layer_costs(tasks);
    costs.given = Split{{0, 0, 0}, {1, 3, 0}};
    return costs;
  };
  const auto findings = search({candidate}, {});
  EXPECT_EQ(text_of(findings[0].split.split), "1/3");
  EXPECT_EQ(findings[0].simulated, 1);
  // The second stage is busy for 4 x 9 of the 4 x 9 + 1 + 2 of a batch.
  EXPECT_EQ(findings[0].price.period_ns, 39e3);
  EXPECT_EQ(findings[0].time.compute, 36e3);
  EXPECT_EQ(findings[0].time.bubble, 3e3);
}

TEST(Search, TakesTheBetterPlacing) {
  const Chain near{.forward = {1, 1, 1, 1}, .message = {0, 0, 0, 0}};
  const Chain far{.forward = {1, 1, 1, 1}, .message = {9, 9, 9, 9}};
  Candidate candidate = far.candidate("1f1b", {.stages = 2, .micro_batches = 4});
  candidate.placings.push_back(near.candidate("1f1b", candidate.shape).placings[0]);
  candidate.placings[1].how = "near";
  const auto findings = search({candidate, near.candidate("1f1b", candidate.shape)}, {});
  EXPECT_EQ(findings[0].placing.how, "near");
  EXPECT_EQ(findings[0].price, findings[1].price);
  EXPECT_TRUE(findings[0].on_front);
  EXPECT_FALSE(findings[1].on_front) << "of equal ones the first";
}

TEST(Search, NamesWhatTheSlowerOneSpendsMoreOf) {
  const BatchTime fast{.compute = 100, .update = 5, .bubble = 10};
  const BatchTime slow{.compute = 100.1, .recompute = 20, .transfer = 7, .bubble = 50};
  const auto grown = growth(fast, slow);
  ASSERT_EQ(grown.size(), 3U);
  EXPECT_EQ(grown[0].name, "bubble");
  EXPECT_EQ(grown[0].ns, 40);
  EXPECT_EQ(grown[1].name, "recompute");
  EXPECT_EQ(grown[2].name, "transfers");
}

}  // namespace
}  // namespace unlatch::sim
