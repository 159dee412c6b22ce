// Memory over time: acceptance cases O17, O19 and O20, stashes, limits.
#include "traces/memory.h"

#include <gmock/gmock.h>

#include "schedules/properties.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::ElementsAre;

constexpr std::int64_t gib = std::int64_t{1} << 30;

std::vector<RankMemory> memory_of(std::string_view spec, const Shape& shape,
                                  const MemorySizes& sizes) {
  const TaskGraph graph = graph_of(spec, shape);
  return memory(graph, run(graph, unit_costs(shape.stages)), sizes);
}

std::vector<std::int64_t> peaks(const std::vector<RankMemory>& ranks) {
  std::vector<std::int64_t> bytes;
  for (const RankMemory& rank : ranks) bytes.push_back(rank.peak.bytes);
  return bytes;
}

MemorySizes activations(std::int64_t bytes, int stages) {
  MemorySizes sizes;
  sizes.activation.assign(stages, bytes);
  return sizes;
}

TEST(Memory, HoldsAsManyActivationsAsTheScheduleNeeds) {  // case O17
  const MemorySizes sizes = activations(gib * 3 / 2, 4);
  const std::vector<RankMemory> ranks = memory_of("1f1b", {.stages = 4, .micro_batches = 8}, sizes);
  EXPECT_THAT(peaks(ranks), ElementsAre(6 * gib, 4 * gib + gib / 2, 3 * gib, gib * 3 / 2));
  EXPECT_THAT(peaks(memory_of("1f1b", {.stages = 4, .micro_batches = 2}, sizes)),
              ElementsAre(3 * gib, 3 * gib, 3 * gib, gib * 3 / 2));
  EXPECT_THAT(peaks(memory_of("gpipe:recompute=never", {.stages = 4, .micro_batches = 8}, sizes)),
              ElementsAre(12 * gib, 12 * gib, 12 * gib, 12 * gib));
}

TEST(Memory, NamesTheTaskThatBreaksALimit) {  // case O17
  const Shape shape{.stages = 4, .micro_batches = 8};
  const TaskGraph graph = graph_of("1f1b", shape);
  const std::vector<RankMemory> ranks =
      memory(graph, run(graph, unit_costs(4)), activations(gib * 3 / 2, 4));
  EXPECT_FALSE(first_above(ranks[0], 6 * gib).has_value());
  const auto broken = first_above(ranks[0], 5 * gib);
  ASSERT_TRUE(broken.has_value());
  EXPECT_EQ(label(graph.task(broken->cause)), "0F3");
  EXPECT_EQ(broken->bytes, 6 * gib);
  for (int r = 1; r < 4; ++r) EXPECT_FALSE(first_above(ranks[r], 5 * gib).has_value());
}

std::vector<std::int64_t> levels_of_split_backward(const std::vector<std::pair<Op, int>>& order) {
  HandGraph hand({.stages = 1, .micro_batches = 3});
  for (const auto& [op, i] : order) hand.add(op, 0, i);
  const TaskGraph graph = hand.build();
  MemorySizes sizes = activations(10, 1);
  sizes.weight_grad_activation = {6};
  const RankMemory rank = memory(graph, run(graph, unit_costs(1)), sizes)[0];
  std::vector<std::int64_t> levels;
  for (const MemoryLevel& level : rank.levels) levels.push_back(level.bytes);
  EXPECT_EQ(rank.peak.bytes, *std::max_element(levels.begin(), levels.end()));
  return levels;
}

TEST(Memory, FreesASplitBackwardInTwoParts) {  // case O19, in tenths
  const Op f = Op::forward, i = Op::backward_input, w = Op::backward_weight;
  // F0 F1 I0 F2 I1 W0 I2 W1 W2: F changes its level at its start, I and W at their ends; where an
  // F starts when an I ends, one level stands for both.
  EXPECT_THAT(levels_of_split_backward(
                  {{f, 0}, {f, 1}, {i, 0}, {f, 2}, {i, 1}, {w, 0}, {i, 2}, {w, 1}, {w, 2}}),
              ElementsAre(0, 10, 20, 26, 22, 16, 12, 6, 0));
  EXPECT_THAT(levels_of_split_backward(
                  {{f, 0}, {f, 1}, {i, 0}, {w, 0}, {f, 2}, {i, 1}, {w, 1}, {i, 2}, {w, 2}}),
              ElementsAre(0, 10, 20, 16, 20, 16, 10, 6, 0));
}

TEST(Memory, OfTheDecoupledMethodsFallsFromTheFirstStageToTheLast) {  // case O20
  MemorySizes sizes = activations(10, 4);
  sizes.input = {1, 1, 1, 1};
  const Shape shape{.stages = 4, .batches = 16};
  const auto peaks_of = [&](std::string_view spec) { return peaks(memory_of(spec, shape, sizes)); };
  EXPECT_THAT(peaks_of("bp"), ElementsAre(10, 10, 10, 10));
  EXPECT_THAT(peaks_of("ddg"), ElementsAre(40, 30, 20, 10));
  EXPECT_THAT(peaks_of("fr"), ElementsAre(14, 13, 12, 11));
  EXPECT_THAT(peaks_of("fdg:order=bf"), ElementsAre(60, 40, 20, 10));
  EXPECT_THAT(peaks_of("fdg:order=fb"), ElementsAre(70, 50, 30, 10));
}

TEST(Memory, CountsTheStashedWeightVersions) {
  MemorySizes sizes;
  sizes.weight = {100, 100, 100};
  sizes.gradient = {10, 10, 10};
  sizes.optimizer = {1, 1, 1};
  const Shape shape{.stages = 3, .batches = 16};
  const std::vector<RankMemory> exact = memory_of("fdg:weights=exact", shape, sizes);
  EXPECT_THAT(peaks(exact), ElementsAre(511, 311, 111));
  EXPECT_EQ(exact[0].peak_weight_versions, 5);
  EXPECT_EQ(exact[0].levels.back().bytes, 111);  // nothing is left in the stash
  EXPECT_THAT(peaks(memory_of("fdg:weights=in_place", shape, sizes)), ElementsAre(111, 111, 111));
}

TEST(Memory, AgreesWithTheCountsOfTheGraph) {
  for (const char* spec :
       {"bp", "gpipe", "gpipe:recompute=always", "1f1b", "ddg", "ddg:form=mailbox", "fr", "fdg",
        "fdg:order=bf", "fdg:form=queue", "dsp", "dsp:form=lockstep", "dsp:staleness=6/3/0"}) {
    const Shape shape{.stages = 3, .micro_batches = 4, .batches = 12};
    const TaskGraph graph = graph_of(spec, shape);
    const Properties facts = properties(graph);
    const std::vector<RankMemory> ranks = memory(graph, run(graph, unit_costs(3)), {});
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(ranks[r].peak_activations, facts.activations[r]) << spec << " rank " << r;
      EXPECT_EQ(ranks[r].peak_inputs, facts.inputs[r]) << spec << " rank " << r;
      EXPECT_EQ(ranks[r].peak_weight_versions, facts.weight_versions[r]) << spec << " rank " << r;
    }
  }
}

TEST(Memory, CountsATapeOfNoLength) {
  HandGraph hand({.stages = 1});
  hand.add(Op::forward, 0, 0);
  hand.add(Op::backward, 0, 0);
  const TaskGraph graph = hand.build();
  const RankMemory rank =
      memory(graph, run(graph, costs_of({.forward = "0"}, 1)), activations(10, 1))[0];
  EXPECT_EQ(rank.peak_activations, 1);
  EXPECT_EQ(rank.peak.bytes, 10);
  EXPECT_EQ(rank.levels.back().bytes, 0);
  EXPECT_TRUE(first_above(rank, 9).has_value());
}

TEST(Memory, GrowsWithABatchInOnePieceExceptForTheWeights) {
  MemorySizes sizes = activations(10, 2);
  sizes.input = {1, 2};
  sizes.weight = {100, 100};
  const MemorySizes whole = sizes.in_one_piece(4);
  EXPECT_THAT(whole.activation, ElementsAre(40, 40));
  EXPECT_THAT(whole.input, ElementsAre(4, 8));
  EXPECT_THAT(whole.weight, ElementsAre(100, 100));
}

}  // namespace
}  // namespace unlatch::sim
