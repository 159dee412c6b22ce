#include "schedules/properties.h"

#include <gtest/gtest.h>

#include "schedules/registry.h"

namespace unlatch {
namespace {

using Values = std::vector<int>;

Properties of(const std::string& schedule, const Shape& shape) {
  return properties(ScheduleSpec::parse(schedule).make(shape).build());
}

TEST(Properties, OfTheDelayedGradientFamily) {
  const Shape shape{.stages = 4, .batches = 20};
  EXPECT_EQ(of("ddg", shape).weight_staleness, (Values{3, 2, 1, 0}));
  EXPECT_EQ(of("ddg", shape).weight_versions, (Values{4, 3, 2, 1}));
  EXPECT_EQ(of("ddg:weights=in_place", shape).weight_versions, (Values{1, 1, 1, 1}));
  EXPECT_EQ(of("fr", shape).forward_staleness, (Values{3, 2, 1, 0}));
  EXPECT_EQ(of("fr", shape).weight_staleness, (Values{0, 0, 0, 0}));
  EXPECT_EQ(of("fdg", shape).weight_staleness, (Values{6, 4, 2, 0}));
  EXPECT_EQ(of("fdg:order=bf", shape).weight_staleness, (Values{5, 3, 1, 0}));
  EXPECT_EQ(of("dsp", shape).forward_staleness, (Values{6, 4, 2, 0}));
  EXPECT_EQ(of("dsp", shape).weight_staleness, (Values{0, 0, 0, 0}));
}

TEST(Properties, OfWhatARankKeeps) {  // case O20 and decoupled.md section 11
  const Shape shape{.stages = 4, .batches = 20};
  EXPECT_EQ(of("bp", shape).activations, (Values{1, 1, 1, 1}));
  EXPECT_EQ(of("ddg", shape).activations, (Values{4, 3, 2, 1}));
  EXPECT_EQ(of("fr", shape).inputs, (Values{4, 3, 2, 1}));
  EXPECT_EQ(of("fr", shape).activations, (Values{1, 1, 1, 1}));
  EXPECT_EQ(of("fdg:order=bf", shape).activations, (Values{6, 4, 2, 1}));
  EXPECT_EQ(of("fdg:order=fb", shape).activations, (Values{7, 5, 3, 1}));
  EXPECT_EQ(of("dsp", {.stages = 3, .batches = 20}).inputs, (Values{5, 3, 1}));
}

TEST(Properties, OfOneForwardOneBackwardClampToTheMicroBatches) {  // cases O01 and O17
  EXPECT_EQ(of("1f1b", {.stages = 4, .micro_batches = 8}).activations, (Values{4, 3, 2, 1}));
  EXPECT_EQ(of("1f1b", {.stages = 4, .micro_batches = 2}).activations, (Values{2, 2, 2, 1}));
  EXPECT_EQ(of("gpipe", {.stages = 4, .micro_batches = 8}).activations, (Values{8, 8, 8, 8}));
}

TEST(Properties, CountsUpdatesThatARunWithoutDrainLeavesOut) {  // case O46
  const Shape drained{.stages = 3, .batches = 10};
  const Shape cut{.stages = 3, .batches = 10, .drain = false};
  EXPECT_EQ(of("fdg", drained).updates, (Values{10, 10, 10}));
  EXPECT_EQ(of("fdg", cut).updates, (Values{6, 8, 10}));
  EXPECT_EQ(of("ddg", cut).updates, (Values{8, 9, 10}));
  EXPECT_EQ(of("dsp", cut).updates, (Values{6, 8, 10}));
}

TEST(Properties, ListsTheVersionThatEachGradientIsAppliedTo) {
  const TaskGraph graph =
      ScheduleSpec::parse("gpipe").make({.stages = 1, .micro_batches = 2, .batches = 3}).build();
  EXPECT_EQ(applied_versions(graph)[0], (Values{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(staleness_by_update(graph, Stage{0}), (Values{0, 0, 0}));
}

}  // namespace
}  // namespace unlatch
