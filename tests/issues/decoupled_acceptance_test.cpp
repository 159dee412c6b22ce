// The acceptance tests of the decoupled methods that hold for every variant at once: which version
// each task reads, what is equal bit for bit, where two methods agree and where they part.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "exec/numerics.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "tests/support/variants.h"

namespace unlatch {
namespace {

using testing_support::variants;

constexpr std::string_view decoupled[] = {"bp", "gpipe", "1f1b", "ddg", "fr", "fdg", "dsp"};

/// Updates between the forward of a batch on stage k and its own update, far from the start.
int delay(const ScheduleSpec& spec, const Shape& shape, int k) {
  const Options options = spec.options(shape);
  const std::string_view name = spec.method().name;
  const int below_last = shape.stages - 1 - k;
  if (name == "ddg" || name == "fr") return below_last;
  if (name == "fdg") {
    return options.is("order", "bf") && below_last > 0 ? 2 * below_last - 1 : 2 * below_last;
  }
  return name == "dsp" ? options.list("staleness")[k] : 0;
}

/// vF = max(0, n - delay); the gradient reads vF where weights are stashed, else n; n is updated.
void expect_the_versions_of_its_method(const ScheduleSpec& spec, const TaskGraph& graph) {
  const bool exact = spec.options(graph.shape()).is("weights", "exact");
  for (const Task& task : graph.tasks()) {
    if (!is_compute(task.op)) continue;
    const int n = batch_of(graph, task);
    const int forward = std::max(0, n - delay(spec, graph.shape(), task.stage.value));
    const bool reads_old = task.op == Op::forward || (task.op == Op::backward && exact);
    ASSERT_EQ(task.version, reads_old ? forward : n) << label(task);
  }
}

/// Every version is read while it is the current one or stashed; nothing stays stashed.
void expect_only_live_versions_read(const TaskGraph& graph) {
  struct State {
    int current = 0;
    std::set<int> stashed;
  };
  std::map<Stage, State> stages;
  for (const Task& task : graph.tasks()) {
    if (!is_compute(task.op)) continue;
    State& state = stages[task.stage];
    if (task.op == Op::update) {
      ASSERT_EQ(task.version, state.current) << label(task);
      if (task.has(keeps_old)) state.stashed.insert(state.current);
      ++state.current;
      continue;
    }
    ASSERT_TRUE(task.version == state.current || state.stashed.contains(task.version))
        << label(task) << " reads version " << task.version;
    if (task.has(last_reader)) state.stashed.erase(task.version);
  }
  for (const auto& [k, state] : stages) EXPECT_TRUE(state.stashed.empty()) << "stage " << k.value;
}

TEST(DecoupledAcceptance, EveryTaskReadsTheVersionOfItsMethod) {  // section 15, item 2
  for (const std::string_view name : decoupled) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (const std::string& text : variants(find_method(name), stages)) {
        const ScheduleSpec spec = ScheduleSpec::parse(text);
        for (const int batches : {1, 2, 3, 7, 14}) {
          for (const bool drain : {true, false}) {
            SCOPED_TRACE(fmt::format("{} K={} N={} drain={}", text, stages, batches, drain));
            const TaskGraph graph =
                spec.make(
                        {.stages = stages, .micro_batches = 3, .batches = batches, .drain = drain})
                    .build();
            expect_the_versions_of_its_method(spec, graph);
            if (drain) expect_only_live_versions_read(graph);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

using History = std::vector<std::vector<double>>;

History weights_of(const std::string& text, int stages, bool drain = true) {
  exec::ChainProblem problem{.weights = {0.9, -0.8, 1.1, 0.7}};
  const Shape shape{.stages = stages, .batches = 12, .drain = drain};
  exec::fill_with_golden_data(problem, shape.batches);
  return run_chain(ScheduleSpec::parse(text).make(shape).build(), problem).weights_by_update;
}

TEST(DecoupledAcceptance, OneStageIsBackPropagationForEveryVariant) {  // item 1
  for (const std::string_view name : decoupled) {
    for (const std::string& text : variants(find_method(name), 1)) {
      EXPECT_EQ(weights_of(text, 1), weights_of("bp", 1)) << text;
    }
  }
}

TEST(DecoupledAcceptance, TheFirstUpdateIsThatOfBackPropagation) {  // item 4
  const History bp = weights_of("bp", 4);
  for (const std::string_view name : decoupled) {
    for (const std::string& text : variants(find_method(name), 4)) {
      if (text.find("shrink=0.5") != std::string::npos) continue;
      const History history = weights_of(text, 4);
      for (int k = 0; k < 4; ++k) EXPECT_EQ(history[k][1], bp[k][1]) << text << " stage " << k;
    }
  }
}

/// What numbers depend on: everything but the form of execution, the queues and, for a batch of
/// one sample, the recompute and the order of GPipe.
std::string mathematics_of(const ScheduleSpec& spec, const Shape& shape) {
  std::string text(spec.method().name);
  const Options options = spec.options(shape);
  for (const std::string_view key : {"weights", "order"}) {
    if (options.find(key) != nullptr) text += fmt::format(" {}", options.word(key));
  }
  if (options.find("shrink") != nullptr) text += fmt::format(" {}", options.number("shrink"));
  if (options.find("staleness") != nullptr) {
    text += fmt::format(" {}", fmt::join(options.list("staleness"), "/"));
  }
  return text;
}

TEST(DecoupledAcceptance, FormAndQueuesChangeNoBit) {  // item 7
  const int stages = 4;
  for (const bool drain : {true, false}) {
    std::map<std::string, std::pair<std::string, History>> first;
    int compared = 0;
    for (const std::string_view name : decoupled) {
      std::vector<std::string> all = variants(find_method(name), stages);
      if (name == "dsp") {
        all.insert(all.end(), {"dsp:queues=0/0/0/0", "dsp:queues=2/0/1/0", "dsp:queues=2/2/2/0"});
      }
      for (const std::string& text : all) {
        const ScheduleSpec spec = ScheduleSpec::parse(text);
        const History history = weights_of(text, stages, drain);
        const auto [found, added] =
            first.try_emplace(mathematics_of(spec, {.stages = stages}), std::pair(text, history));
        EXPECT_EQ(history, found->second.second) << text << " and " << found->second.first;
        compared += added ? 0 : 1;
      }
    }
    EXPECT_GE(compared, 20);
  }
}

TEST(DecoupledAcceptance, WithoutStalenessDspIsBackPropagation) {  // item 6
  EXPECT_EQ(weights_of("dsp:staleness=0/0/0/0", 4), weights_of("bp", 4));
  EXPECT_EQ(weights_of("dsp:form=lockstep,staleness=0/0/0/0", 4), weights_of("bp", 4));
}

struct Position {
  Span span;
  int version = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

/// Times at F=1, B=2 of all F, B and U; the version that F reads and U is applied to. R costs
/// nothing: in the drain it has no F to hide beside.
std::map<std::string, Position> positions(const std::string& text, const Shape& shape) {
  const TaskGraph graph = ScheduleSpec::parse(text).make(shape).build();
  sim::CostSettings settings;
  settings.recompute = "0";
  const sim::StageCosts costs(sim::stage_times(settings, shape.stages));
  const Timeline timeline = sim::run(graph, costs);
  std::map<std::string, Position> all;
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (!is_compute(task.op) || task.op == Op::recompute) continue;
    all[label(task)] = {timeline[id], task.op == Op::backward ? 0 : task.version};
  }
  return all;
}

TEST(DecoupledAcceptance, FdgAndDspTakeTheSamePlacesAndVersions) {  // item 6
  for (int stages = 1; stages <= 5; ++stages) {
    for (const int batches : {1, 4, 12}) {
      const Shape shape{.stages = stages, .batches = batches};
      EXPECT_TRUE(positions("fdg", shape) == positions("dsp:form=lockstep", shape)) << stages;
      EXPECT_TRUE(positions("fdg:form=queue", shape) == positions("dsp", shape)) << stages;
    }
  }
}

TEST(DecoupledAcceptance, FdgAndDspPartAtTheSecondUpdateBelowTheLastStage) {  // item 6
  exec::ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  exec::fill_with_golden_data(problem, 12);
  const Shape shape{.stages = 3, .batches = 12};
  const History fdg =
      run_chain(ScheduleSpec::parse("fdg").make(shape).build(), problem).weights_by_update;
  const History dsp =
      run_chain(ScheduleSpec::parse("dsp").make(shape).build(), problem).weights_by_update;
  for (int k = 0; k < 3; ++k) EXPECT_EQ(fdg[k][1], dsp[k][1]);
  EXPECT_GT(std::abs(fdg[0][2] - dsp[0][2]), 1e-5);
  EXPECT_GT(std::abs(fdg[1][2] - dsp[1][2]), 1e-5);
  EXPECT_EQ(fdg[2][2], dsp[2][2]);
}

}  // namespace
}  // namespace unlatch
