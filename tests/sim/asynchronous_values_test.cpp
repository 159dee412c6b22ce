// Steady states of the asynchronous methods: no bubble for PipeDream and its relatives, the periods
// of DNI where gradients take time, and the drawn timeline of DGL.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/support.h"
#include "traces/metrics.h"

namespace unlatch::sim {
namespace {

TEST(AsynchronousValues, NoRankIdlesInTheSteadyStateOfPipeDream) {
  for (const std::string spec :
       {"pipedream", "pipedream:weights=vertical_sync", "pipedream:weights=latest"}) {
    for (int stages = 1; stages <= 5; ++stages) {
      EXPECT_DOUBLE_EQ(period_ms(spec, {.stages = stages}, unit_costs(stages)), 3)
          << spec << " P=" << stages;
    }
  }
  for (int stages = 1; stages <= 5; ++stages) {
    for (int m = stages; m <= stages + 3; ++m) {
      const Shape shape{.stages = stages, .micro_batches = m};
      EXPECT_DOUBLE_EQ(period_ms("pipedream-2bw", shape, unit_costs(stages)), 3 * m)
          << "P=" << stages << " M=" << m;
    }
  }
}

TEST(AsynchronousValues, WorkedExamplesOfPipeDreamTakeTheirTime) {
  const StageCosts costs = unit_costs(4);
  const auto ends_at = [&](const std::string& spec, const Shape& shape) {
    return makespan(run(graph_of(spec, shape), costs));
  };
  EXPECT_EQ(ends_at("pipedream", {.stages = 4, .batches = 8}), ms(33));
  EXPECT_EQ(ends_at("pipedream-2bw", {.stages = 4, .micro_batches = 4, .batches = 2}), ms(33));
}

TEST(AsynchronousValues, AdlTakesTheTimeOfFdg) {
  for (int stages = 1; stages <= 4; ++stages) {
    EXPECT_DOUBLE_EQ(period_ms("adl", {.stages = stages}, unit_costs(stages)), 3);
  }
}

TEST(AsynchronousValues, LocalGradientsRunAtTheSpeedOfOneStage) {
  for (const int stages : {2, 3, 4, 8}) {
    EXPECT_DOUBLE_EQ(period_ms("dgl", {.stages = stages}, unit_costs(stages)), 3);
    EXPECT_DOUBLE_EQ(period_ms("dni", {.stages = stages}, unit_costs(stages)), 3);
  }
}

TEST(AsynchronousValues, DeltaHidesTheWayOfTheGradientsOfDni) {
  struct Row {
    const char* transfer;
    double delta_1, delta_2;
  };
  for (const Row& row : {Row{"0.5", 11.0 / 3, 3}, Row{"1", 13.0 / 3, 3}, Row{"2", 17.0 / 3, 3.4}}) {
    const StageCosts costs = costs_of({.transfer = row.transfer}, 3);
    EXPECT_NEAR(period_ms("dni", {.stages = 3}, costs), row.delta_1, 1e-9) << row.transfer;
    EXPECT_NEAR(period_ms("dni:delta=2", {.stages = 3}, costs), row.delta_2, 1e-9) << row.transfer;
  }
}

/// All forwards, the message of the error, one backward: then stage 0 is free for the next batch.
TEST(AsynchronousValues, DfaGoesBackOnAllStagesAtOnce) {
  for (const int stages : {1, 2, 3, 5}) {
    EXPECT_DOUBLE_EQ(period_ms("dfa", {.stages = stages}, unit_costs(stages)), stages + 2);
    const StageCosts costs =
        costs_of({.activation_transfer = "0.5", .gradient_transfer = "0.75"}, stages);
    const double links = stages > 1 ? 0.5 * (stages - 1) + 0.75 : 0;
    EXPECT_DOUBLE_EQ(period_ms("dfa", {.stages = stages}, costs), stages + 2 + links);
  }
}

TEST(AsynchronousValues, DglRunsAsDrawn) {
  const TaskGraph graph = graph_of("dgl", {.stages = 3, .batches = 6});
  const Timeline timeline = run(graph, unit_costs(3));
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (task.op == Op::update) continue;
    const int start = task.stage.value + 3 * task.micro_batch.value;
    EXPECT_EQ(timeline[id].start, ms(task.op == Op::forward ? start : start + 1)) << label(task);
  }
}

TEST(AsynchronousValues, NoGradientOfDglCrossesABoundary) {
  const TaskGraph graph = graph_of("dgl", {.stages = 3, .batches = 4});
  for (const TaskId id : graph.ids()) {
    for (const Edge edge : graph.edges_into(id)) EXPECT_NE(edge.kind(), EdgeKind::gradient);
  }
}

}  // namespace
}  // namespace unlatch::sim
