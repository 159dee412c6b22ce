// KeptMemory and StreamMemory's own figures: what the executor keeps is what memory() predicts,
// after every task and to the byte, and what a device's pool holds is what the executor keeps.
#include "exec/kept_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "exec/cpu_backend.h"
#include "exec/executor.h"
#include "exec/numerics.h"
#include "exec/scalar_chain.h"
#include "exec/scalar_heads.h"
#include "exec/stage_runner.h"
#include "exec/stream_backend.h"
#include "tests/exec/stream_device.h"
#include "tests/support/small_graphs.h"
#include "tests/support/watched.h"
#include "traces/memory.h"

namespace unlatch::exec {
namespace {

using testing_support::describe;
using testing_support::small_graphs;

using testing_support::Watched;
using Kind = KeptMemory::Kind;

/// Stages of different sizes, so that no stage's bytes pass for another's.
std::vector<int> weights_of_stages(const TaskGraph& graph) {
  std::vector<int> sizes;
  for (int k = 0; k < graph.shape().stages_a_copy(); ++k) sizes.push_back(1 + k % 5);
  return sizes;
}

/// The stages of a run on the host, or with their tensors on a device, and what they run on.
struct Stages {
  explicit Stages(const TaskGraph& graph, const char* optimizer = "momentum:momentum=0.9",
                  Device* device = nullptr) {
    const std::vector<int> sizes = weights_of_stages(graph);
    const int weights = std::accumulate(sizes.begin(), sizes.end(), 0);
    for (int j = 0; j < weights; ++j) problem.weights.push_back(0.9 - 0.05 * j);
    problem.optimizer = models::OptimizerSpec::parse(optimizer);
    fill_with_golden_data(problem, graph.shape().all_micro_batches());
    for (int copy = 0; copy < graph.shape().copies; ++copy) {
      for (auto& host :
           scalar_chain_stages(problem.weights, sizes, problem.activation, problem.optimizer)) {
        owned.push_back(std::move(host));
        const Stage stage{static_cast<int>(modules.size())};
        if (device != nullptr) {
          owned.push_back(std::make_unique<DeviceStage>(*device, stage, *owned.back()));
        }
        modules.push_back(owned.back().get());
      }
    }
    heads = scalar_heads(graph, problem.optimizer);
    if (device != nullptr) {
      device_heads = std::make_unique<DeviceHeads>(*device, std::move(heads));
      lent_heads = device_heads->lent;
      return;
    }
    for (const auto& head : heads) lent_heads.push_back(head.get());
  }

  ChainProblem problem;
  std::vector<std::unique_ptr<StageModule>> owned;
  std::vector<StageModule*> modules;
  std::vector<std::unique_ptr<LocalHead>> heads;  ///< empty where they are on the device
  std::unique_ptr<DeviceHeads> device_heads;
  std::vector<LocalHead*> lent_heads;
};

/// What the stages' own tapes, inputs and weights hold. `placed` brings an input to a stage.
MemorySizes sizes_of(const Stages& stages,
                     const std::function<Tensor(Stage, const Tensor&)>& placed) {
  const auto bytes = [](std::size_t size) { return static_cast<std::int64_t>(size); };
  MemorySizes sizes;
  Workspace workspace;
  ScalarFeed feed({0.5}, {0.5});
  for (std::size_t k = 0; k < stages.modules.size(); ++k) {
    StageModule& module = *stages.modules[k];
    const Tensor input = placed(Stage{static_cast<int>(k)}, feed.input(MicroBatch{0}));
    const Tensor weights = module.initial_weights();
    std::unique_ptr<StageModule::Tape> tape;
    module.forward(weights, input, StageModule::Pass::normal, &tape, workspace);
    sizes.activation.push_back(bytes(tape->bytes()));
    module.backward_input(weights, *tape, input, 1, false, workspace);
    sizes.weight_grad_activation.push_back(bytes(tape->bytes()));
    sizes.input.push_back(bytes(input.bytes()));
    const bool headed = !stages.lent_heads.empty() && stages.lent_heads[k] != nullptr;
    const auto head = headed ? stages.lent_heads[k]->bytes() : LocalHead::Bytes{};
    sizes.weight.push_back(bytes(weights.bytes() + head.weights));
    sizes.gradient.push_back(bytes(module.zero_gradient().bytes() + head.gradient));
    sizes.optimizer.push_back(bytes(module.optimizer_bytes() + head.optimizer));
    sizes.output.push_back(sizeof(double));
    sizes.output_gradient.push_back(sizeof(double));
  }
  return sizes;
}

/// One task after the other in the order of the graph, with a pause behind each.
Timeline in_turn(const TaskGraph& graph) {
  Timeline timeline{LongArray<Span>(static_cast<std::size_t>(graph.size()))};
  for (const TaskId id : graph.ids()) {
    timeline[id] = {nanoseconds{2 * id.value}, nanoseconds{2 * id.value + 1}};
  }
  return timeline;
}

const MemoryLevel& level_at(const RankMemory& rank, nanoseconds time) {
  const auto later = std::ranges::upper_bound(rank.levels, time, {}, &MemoryLevel::at);
  return later == rank.levels.begin() ? *later : *std::prev(later);
}

void expect_level(const KeptMemory::Level& found, const MemoryLevel& predicted) {
  ASSERT_EQ(found.of(Kind::activations).count, predicted.activations);
  ASSERT_EQ(found.of(Kind::inputs).count, predicted.inputs);
  ASSERT_EQ(found.of(Kind::weights).count, predicted.weight_versions);
  ASSERT_EQ(found.bytes(), predicted.bytes);
  ASSERT_EQ(found.of(Kind::queues).count, predicted.queued);
  ASSERT_EQ(found.queued_bytes(), predicted.queued_bytes);
}

void expect_peaks(const KeptMemory::Account& found, const RankMemory& predicted) {
  EXPECT_EQ(found.peak_activations, predicted.peak_activations);
  EXPECT_EQ(found.peak_inputs, predicted.peak_inputs);
  EXPECT_EQ(found.peak_weight_versions, predicted.peak_weight_versions);
  expect_level(found.peak, predicted.peak);
  EXPECT_EQ(found.peak_with_queues, predicted.peak_with_queues);
}

/// Runs the graph and compares after every task.
void expect_as_predicted(const TaskGraph& graph, const Stages& stages, Feed& feed,
                         const MemorySizes& sizes, StreamOrder& order) {
  const Timeline timeline = in_turn(graph);
  const std::vector<RankMemory> predicted = memory(graph, timeline, sizes);
  StageRunner runner(
      graph, stages.modules, feed, [](int) { return 0.1; }, {}, stages.lent_heads);
  Watched watched(runner, order, [&](TaskId id) {
    if (testing::Test::HasFatalFailure()) return;
    SCOPED_TRACE(label(graph.task(id)));
    for (const Rank r : up_to<Rank>(graph.ranks())) {
      expect_level(runner.kept().of(r).now, level_at(predicted[r.value], timeline[id].end));
    }
  });
  StreamBackend backend(graph, order, watched);
  run(graph, backend);
  for (const Rank r : up_to<Rank>(graph.ranks())) {
    expect_peaks(runner.kept().of(r), predicted[r.value]);
  }
}

MemorySizes host_sizes_of(const Stages& stages) {
  return sizes_of(stages, [](Stage, const Tensor& tensor) { return tensor; });
}

/// On the host. Returns the sizes that the prediction is made from.
MemorySizes expect_as_predicted(const TaskGraph& graph) {
  const Stages stages(graph);
  ScalarFeed feed(stages.problem.x, stages.problem.y);
  RecordingStreams streams(graph);
  StreamOrder order(graph, streams);
  const MemorySizes sizes = host_sizes_of(stages);
  expect_as_predicted(graph, stages, feed, sizes, order);
  return sizes;
}

TEST(KeptMemory, IsWhatIsPredictedAfterEveryTask) {
  const std::vector<TaskGraph> graphs = small_graphs();
  EXPECT_GT(graphs.size(), 150U);
  for (const TaskGraph& graph : graphs) {
    SCOPED_TRACE(describe(graph));
    expect_as_predicted(graph);
    if (HasFatalFailure()) return;
  }
}

TEST(KeptMemory, IsWhatIsPredictedOfADeviceAfterEveryTask) {
  for (const TaskGraph& graph : small_graphs()) {
    SCOPED_TRACE(describe(graph));
    Device device(graph, 16, 0);
    const Stages stages(graph, "momentum:momentum=0.9", &device);
    ScalarFeed host_feed(stages.problem.x, stages.problem.y);
    DeviceFeed feed(device, host_feed);
    const MemorySizes sizes =
        sizes_of(stages, [&](Stage k, const Tensor& tensor) { return device.taken(k, tensor); });
    EXPECT_LT(sizes.weight_grad_activation, sizes.activation);
    expect_as_predicted(graph, stages, feed, sizes, device.order);
    if (HasFatalFailure()) return;
  }
}

/// Without drain, gradients and tapes are left in flight, and counted.
TEST(KeptMemory, HoldsWhatAnEndedRunLeaves) {
  for (const char* schedule : {"fdg", "dsp", "ddg:form=mailbox", "fr", "adl"}) {
    SCOPED_TRACE(schedule);
    const TaskGraph graph =
        ScheduleSpec::parse(schedule).make({.stages = 3, .batches = 12, .drain = false}).build();
    const MemorySizes sizes = expect_as_predicted(graph);
    const RankMemory first = memory(graph, in_turn(graph), sizes).front();
    EXPECT_GT(first.levels.back().bytes, first.levels.front().bytes);
  }
}

/// Threads change when things are counted, not what is left.
TEST(KeptMemory, EndsTheSameOnThreads) {
  for (const char* schedule : {"1f1b", "fdg", "dsp", "gpipe:recompute=always", "zb-h1", "dgl"}) {
    SCOPED_TRACE(schedule);
    const TaskGraph graph = ScheduleSpec::parse(schedule)
                                .make({.stages = 4, .micro_batches = 4, .batches = 20})
                                .build();
    const Stages stages(graph);
    ScalarFeed feed(stages.problem.x, stages.problem.y);
    StageRunner runner(
        graph, stages.modules, feed, [](int) { return 0.1; }, {}, stages.lent_heads);
    CpuBackend backend(graph, runner, {.workers = 4});
    run(graph, backend);
    const MemorySizes sizes = host_sizes_of(stages);
    const std::vector<RankMemory> predicted = memory(graph, in_turn(graph), sizes);
    for (const Rank r : up_to<Rank>(graph.ranks())) {
      expect_level(runner.kept().of(r).now, predicted[r.value].levels.back());
      EXPECT_EQ(runner.kept().of(r).now.of(Kind::queues).count, 0);
      EXPECT_EQ(runner.kept().of(r).now.queued_bytes(), 0);
    }
  }
}

/// A tape keeps the input that is stored beside it for R: two entries of the account, one tensor.
std::int64_t shared_bytes(const KeptMemory::Level& level) {
  constexpr std::int64_t input_bytes = sizeof(double);
  const bool recomputes = level.of(Kind::inputs).count > 0;
  return recomputes ? level.of(Kind::activations).count * input_bytes : 0;
}

/// False for what the account leaves out (KeptMemory).
bool is_all_counted(const TaskGraph& graph) {
  const Learning& learning = graph.learning();
  const bool reduces = graph.shape().copies == 1 || learning.agreement.is_dense_all_reduce();
  return reduces && learning.drift_decay == 0;
}

/// Device by device: where ranks share one, a tensor stays on the rank that made it when another
/// comes to keep it. What waits for a head may be one tensor with what waits for the next stage, or
/// for another head, so that up to all of a queue is held once or more.
TEST(StreamMemory, HoldsBetweenTasksWhatTheStagesKeep) {
  for (const TaskGraph& graph : small_graphs()) {
    if (!is_all_counted(graph)) continue;
    for (const int devices : {1, 2, graph.shape().ranks()}) {
      SCOPED_TRACE(fmt::format("{} on {} devices", describe(graph), devices));
      Device device(graph, 16, 0);
      device.source.share_among(devices);
      device.scratch = 1000;
      const Stages stages(graph, "sgd", &device);  // a velocity would be on the host
      ScalarFeed host_feed(stages.problem.x, stages.problem.y);
      DeviceFeed feed(device, host_feed);
      StageRunner runner(
          graph, stages.modules, feed, [](int) { return 0.1; }, {}, stages.lent_heads);
      const auto expect_held = [&](bool shares_queues) {
        std::map<int, std::int64_t> kept, queued, held;
        for (const Rank r : up_to<Rank>(graph.ranks())) {
          const KeptMemory::Level level = runner.kept().of(r).now;
          const int on = device.source.device_of(r);
          kept[on] += level.bytes() - shared_bytes(level);
          queued[on] += level.queued_bytes();
          held[on] += static_cast<std::int64_t>(device.memory.use_of(r).asked);
        }
        for (const auto& [on, bytes] : held) {
          ASSERT_LE(bytes, kept[on] + queued[on]);
          ASSERT_GE(bytes, kept[on] + (shares_queues ? 0 : queued[on]));
        }
      };
      const bool has_heads = !stages.lent_heads.empty();
      Watched watched(runner, device.order, [&](TaskId id) {
        SCOPED_TRACE(label(graph.task(id)));
        if (!HasFatalFailure()) expect_held(has_heads);
      });
      StreamBackend backend(graph, device.order, watched);
      run(graph, backend);
      if (!HasFatalFailure()) expect_held(false);
      if (HasFatalFailure()) return;
    }
  }
}

/// In blocks of 256 bytes, of which every tensor here takes one.
TEST(StreamMemory, TellsTheWorkspaceOfATaskFromWhatIsKept) {
  constexpr std::size_t block = 256, scratch = 16 * block;
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 2}).build();
  Device device(graph, 16, 0);
  device.scratch = scratch;
  const Stages stages(graph, "sgd", &device);
  ScalarFeed host_feed(stages.problem.x, stages.problem.y);
  DeviceFeed feed(device, host_feed);
  StageRunner runner(graph, stages.modules, feed, [](int) { return 0.1; });
  StreamBackend backend(graph, device.order, runner);
  run(graph, backend);
  const StreamMemory::Use first = device.memory.use_of(Rank{0});
  const StreamMemory::Use last = device.memory.use_of(Rank{1});
  // Weights, gradient, the three parts of the tape, and the output on its way.
  EXPECT_EQ(first.kept_peak, 6 * block);
  EXPECT_EQ(first.workspace, scratch);
  EXPECT_EQ(first.peak, 6 * block + scratch);
  // Weights, gradient, two parts of the tape, the gradient of the loss. B makes the gradient that
  // it sends before its tape goes.
  EXPECT_EQ(last.kept_peak, 5 * block);
  EXPECT_EQ(last.workspace, block + scratch);
  EXPECT_EQ(last.peak, 5 * block + block + scratch);
  // One weight on the first stage, two on the last.
  EXPECT_EQ(first.held, 2 * block);
  EXPECT_EQ(first.asked, 2 * sizeof(double));
  EXPECT_EQ(last.asked, 4 * sizeof(double));
}

}  // namespace
}  // namespace unlatch::exec
