#include "sim/streamed_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/error.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "sim/straggler_costs.h"
#include "tests/support/variants.h"
#include "traces/critical_path.h"

namespace unlatch::sim {
namespace {

using testing::HasSubstr;
using testing_support::variants;

/// Times that differ from stage to stage.
StageCosts costs_of(const Shape& shape, bool transfers, double overlap) {
  using std::chrono::milliseconds;
  StageTimes times;
  for (int k = 0; k < shape.stages_a_copy(); ++k) {
    times.forward.push_back(milliseconds(3 + k * 2 % 5));
    times.backward.push_back(milliseconds(5 + k * 3 % 4));
    times.backward_input.push_back(milliseconds(2));
    times.backward_weight.push_back(times.backward.back() - milliseconds(2));
    times.recompute.push_back(milliseconds(2 + k % 4));
    times.update.push_back(milliseconds(k % 2));
    times.overlap.push_back(overlap);
    times.all_reduce.push_back(milliseconds(transfers ? 1 + k % 2 : 0));
    if (k + 1 == shape.stages_a_copy()) break;
    times.activation_transfer.push_back(milliseconds(transfers ? 1 + k % 3 : 0));
    times.gradient_transfer.push_back(milliseconds(transfers ? 4 - k % 3 : 0));
  }
  return StageCosts(times.for_copies(shape.copies));
}

MemorySizes sizes_of(const Shape& shape) {
  MemorySizes sizes;
  for (int k = 0; k < shape.stages; ++k) {
    sizes.activation.push_back(100 + k);
    sizes.input.push_back(17 + k % 3);
    sizes.weight_grad_activation.push_back(40);
    sizes.weight.push_back(1000 + 7 * k);
    sizes.gradient.push_back(11);
    sizes.optimizer.push_back(5);
  }
  return sizes;
}

void expect_equal(const RankMetrics& streamed, const RankMetrics& whole) {
  EXPECT_EQ(streamed.busy, whole.busy);
  EXPECT_EQ(streamed.recompute, whole.recompute);
  EXPECT_EQ(streamed.idle, whole.idle);
  EXPECT_EQ(streamed.utilization, whole.utilization);
  EXPECT_EQ(streamed.idle_by_cause, whole.idle_by_cause);
}

void expect_equal(const Metrics& streamed, const Metrics& whole) {
  EXPECT_EQ(streamed.makespan, whole.makespan);
  EXPECT_EQ(streamed.bubble_ratio, whole.bubble_ratio);
  EXPECT_EQ(streamed.longest_span, whole.longest_span);
  EXPECT_EQ(streamed.span_bubble_ratio, whole.span_bubble_ratio);
  EXPECT_EQ(streamed.bottleneck, whole.bottleneck);
  ASSERT_EQ(streamed.ranks.size(), whole.ranks.size());
  for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
    SCOPED_TRACE(r);
    expect_equal(streamed.ranks[r], whole.ranks[r]);
  }
  ASSERT_EQ(streamed.stages.size(), whole.stages.size());
  for (std::size_t k = 0; k < whole.stages.size(); ++k) {
    EXPECT_EQ(streamed.stages[k].rank, whole.stages[k].rank);
    EXPECT_EQ(streamed.stages[k].forward_staleness, whole.stages[k].forward_staleness);
    EXPECT_EQ(streamed.stages[k].weight_staleness, whole.stages[k].weight_staleness);
    EXPECT_EQ(streamed.stages[k].updates, whole.stages[k].updates);
  }
  EXPECT_EQ(streamed.transfers.count, whole.transfers.count);
  EXPECT_EQ(streamed.transfers.bytes, whole.transfers.bytes);
}

void expect_equal(const std::vector<RankMemory>& streamed, const std::vector<RankMemory>& whole) {
  ASSERT_EQ(streamed.size(), whole.size());
  for (std::size_t r = 0; r < whole.size(); ++r) {
    SCOPED_TRACE(r);
    EXPECT_EQ(streamed[r].peak_activations, whole[r].peak_activations);
    EXPECT_EQ(streamed[r].peak_inputs, whole[r].peak_inputs);
    EXPECT_EQ(streamed[r].peak_weight_versions, whole[r].peak_weight_versions);
    EXPECT_EQ(streamed[r].peak.bytes, whole[r].peak.bytes);
    EXPECT_EQ(streamed[r].peak.at, whole[r].peak.at);
  }
}

/// The figures of a run without its tasks are those of the run with them.
void expect_streamed_as_whole(const Schedule& schedule, const StageCosts& stage_costs,
                              const CostModel& costs) {
  const MemorySizes sizes = sizes_of(schedule.shape());
  const TaskGraph graph = with_transfers(schedule.build(), stage_costs.links());
  const Timeline timeline = run(graph, costs);
  const RunSummary streamed = run_streamed(schedule, costs, stage_costs.links(), sizes);
  expect_equal(streamed.metrics, metrics(graph, timeline, sizes.input));
  expect_equal(streamed.memory, memory(graph, timeline, sizes));
  EXPECT_EQ(streamed.tasks, graph.size());
  EXPECT_EQ(streamed.critical_path, critical_path(graph, timeline, 1).length);
}

class EveryStreamedSchedule : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryStreamedSchedule, HasTheFiguresOfTheWholeRun) {
  const Method& method = find_method(GetParam());
  int compared = 0;
  const int chunks = std::max(method.chunks.usual, method.chunks.least);
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::string& text : variants(method, ranks * chunks, chunks)) {
      const ScheduleSpec spec = ScheduleSpec::parse(text);
      for (const auto& [micro_batches, batches] :
           {std::pair(1, 1), {4, 1}, {6, 7}, {10, 3}, {1, 40}}) {
        for (const bool drain : {true, false}) {
          for (const int replicas : {1, 2}) {
            const Shape shape{.stages = ranks * chunks,
                              .chunks = chunks,
                              .micro_batches = micro_batches,
                              .batches = batches,
                              .drain = drain,
                              .replicas = replicas};
            if (!testing_support::runs(spec, shape)) continue;
            const Schedule schedule = spec.make(shape);
            if (is_served(schedule.shape(), schedule.learning())) continue;
            SCOPED_TRACE(fmt::format("{} P={} M={} batches={} drain={} replicas={}", text, ranks,
                                     micro_batches, batches, drain, replicas));
            for (const auto& [transfers, overlap] :
                 {std::pair(false, 1.0), {true, 0.3}, {true, 0.0}}) {
              const StageCosts costs = costs_of(schedule.shape(), transfers, overlap);
              expect_streamed_as_whole(schedule, costs, costs);
            }
            ++compared;
            if (HasFailure()) return;
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 0);
}

/// All but those whose replicas have a server; those run without it on one replica.
std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const Method& method : methods()) names.push_back(method.name);
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
  std::string name(info.param);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryStreamedSchedule, testing::ValuesIn(names()), test_name);

TEST(StreamedRun, TakesMoreInFlightThanItExpects) {
  // 1200 micro-batches are in flight on each of 8 ranks.
  const Shape shape{.stages = 8, .micro_batches = 1200, .batches = 3};
  for (const char* text : {"gpipe", "gpipe:recompute=always", "pipedream-2bw"}) {
    SCOPED_TRACE(text);
    const Schedule schedule = ScheduleSpec::parse(text).make(shape);
    const StageCosts costs = costs_of(schedule.shape(), true, 1);
    expect_streamed_as_whole(schedule, costs, costs);
  }
}

TEST(StreamedRun, TakesRandomCosts) {
  const Shape shape{.stages = 6, .micro_batches = 9, .batches = 30};
  const Schedule schedule = ScheduleSpec::parse("1f1b").make(shape);
  const StageCosts costs = costs_of(schedule.shape(), true, 1);
  const Disturbance noise{.stragglers = {Straggler::parse("lognormal:sigma=0.3")}, .seed = 5};
  std::vector<Rank> ranks;
  for (const Stage k : up_to<Stage>(shape.stages)) ranks.push_back(schedule.rank_of(k));
  const StragglerCosts random(costs, ranks, noise, 0);
  const TaskGraph graph = schedule.build();
  EXPECT_EQ(run(graph, random).spans, run(graph, StragglerCosts(costs, graph, noise, 0)).spans);
  expect_streamed_as_whole(schedule, costs, random);
}

TEST(StreamedRun, NamesTheRuleThatAScheduleBreaks) {
  Schedule schedule("mine", {.stages = 1, .micro_batches = 2});
  schedule.on(Rank{0}).forward(Stage{0}, {0}).backward(Stage{0}, {0}).forward(Stage{0}, {1});
  try {
    run_streamed(schedule, costs_of(schedule.shape(), false, 1), {}, {});
    FAIL() << "0B1 is missing";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("mine: 0B1 is missing"));
  }
}

TEST(StreamedRun, RefusesAServer) {
  const Schedule schedule =
      ScheduleSpec::parse("asgd").make({.stages = 1, .batches = 2, .replicas = 2});
  EXPECT_THROW(run_streamed(schedule, costs_of(schedule.shape(), false, 1), {}, {}), Error);
}

}  // namespace
}  // namespace unlatch::sim
