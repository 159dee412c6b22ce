// StreamBackend and StreamMemory without a device: every access of every task is ordered by the
// marks that a device would be given (O39), and the numbers are those of the CPU backend.
#include "exec/stream_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "exec/executor.h"
#include "exec/numerics.h"
#include "exec/scalar_chain.h"
#include "exec/scalar_heads.h"
#include "exec/stage_runner.h"
#include "exec/stream_pool.h"
#include "schedules/error.h"
#include "tests/exec/chain_problem.h"
#include "tests/exec/stream_device.h"
#include "tests/support/small_graphs.h"

namespace unlatch::exec {
namespace {

using testing_support::describe;
using testing_support::small_graphs;

using testing::HasSubstr;
using testing::IsEmpty;

struct Outcome {
  std::vector<double> final;
  std::vector<double> losses;
  std::vector<std::vector<double>> heads;
  std::vector<std::string> faults;
  std::vector<std::string> broken_edges;
  int waits = 0;
  StreamMemory::Use use = {};  ///< of rank 0
};

struct Setting {
  int window = 1 << 10;
  std::size_t limit = 0;
  std::size_t device = ~std::size_t{0} / 2;  ///< bytes that there are
  int forgotten_wait = 0;
  int devices = 1;
};

/// One weight a stage.
Outcome run_on_streams(const TaskGraph& graph, const ChainProblem& problem,
                       const Setting& setting = {}) {
  Device device(graph, setting.window, setting.limit);
  device.source.limit(setting.device);
  device.source.share_among(setting.devices);
  device.streams.forget_wait(setting.forgotten_wait);
  const std::vector<int> sizes(problem.weights.size(), 1);
  std::vector<std::unique_ptr<StageModule>> owned;
  std::vector<StageModule*> modules;
  for (int copy = 0; copy < graph.shape().copies; ++copy) {
    for (auto& host : scalar_chain_stages(problem.weights, sizes, Activation::tanh, {})) {
      owned.push_back(std::move(host));
      const Stage stage{static_cast<int>(modules.size())};
      owned.push_back(std::make_unique<DeviceStage>(device, stage, *owned.back()));
      modules.push_back(owned.back().get());
    }
  }
  Outcome outcome;
  outcome.losses.resize(graph.shape().all_micro_batches());
  ScalarFeed host_feed(problem.x, problem.y);
  DeviceFeed feed(device, host_feed);
  const auto note = [&](MicroBatch i, const Loss& loss) { outcome.losses[i.value] = loss.loss; };
  const DeviceHeads heads(device, scalar_heads(graph, {}));
  StageRunner runner(
      graph, modules, feed, [](int) { return 0.1; }, {.loss = note, .update = {}}, heads.lent);
  StreamBackend backend(graph, device.order, runner);
  run(graph, backend);
  for (const Stage k : up_to<Stage>(graph.shape().stages_a_copy())) {
    outcome.final.push_back(*runner.weights(k).data<double>());
  }
  for (const auto& head : heads.host) {
    if (head != nullptr) outcome.heads.push_back(head->parameters());
  }
  outcome.faults = device.streams.faults();
  outcome.broken_edges = device.streams.broken_edges(graph);
  outcome.waits = device.streams.waits();
  outcome.use = device.memory.use_of(Rank{0});
  return outcome;
}

TEST(StreamBackend, OrdersEveryAccessAndComputesTheSameNumbers) {
  const std::vector<TaskGraph> graphs = small_graphs();
  EXPECT_GT(graphs.size(), 150U);
  for (const TaskGraph& graph : graphs) {
    SCOPED_TRACE(describe(graph));
    const ChainProblem problem = problem_of(graph);
    const ChainResult expected = run_chain(graph, problem, {.workers = 1});
    for (const int window : {1, 5, 1 << 10}) {
      const Outcome found = run_on_streams(graph, problem, {.window = window});
      ASSERT_EQ(found.final, expected.final);
      ASSERT_EQ(found.losses, expected.losses);
      ASSERT_EQ(found.heads, expected.heads);
      ASSERT_THAT(found.faults, IsEmpty());
      ASSERT_THAT(found.broken_edges, IsEmpty());
    }
  }
}

TEST(StreamBackend, CopiesWhatGoesFromDeviceToDevice) {
  for (const TaskGraph& graph : small_graphs()) {
    SCOPED_TRACE(describe(graph));
    const ChainProblem problem = problem_of(graph);
    const ChainResult expected = run_chain(graph, problem, {.workers = 1});
    for (const int devices : {2, graph.shape().ranks()}) {
      const Outcome found = run_on_streams(graph, problem, {.window = 16, .devices = devices});
      ASSERT_EQ(found.final, expected.final);
      ASSERT_EQ(found.heads, expected.heads);
      ASSERT_THAT(found.faults, IsEmpty());
      ASSERT_THAT(found.broken_edges, IsEmpty());
    }
  }
}

/// So little memory that takers wait for the readers of others.
TEST(StreamBackend, OrdersEveryAccessWhenMemoryIsShort) {
  int waited_more = 0;
  for (const TaskGraph& graph : small_graphs()) {
    SCOPED_TRACE(describe(graph));
    const ChainProblem problem = problem_of(graph);
    const Outcome plenty = run_on_streams(graph, problem);
    Outcome scarce;
    std::size_t limit = plenty.use.allocated;
    for (; limit > 0; limit -= 256) {  // down to the least that it runs in
      try {
        scarce = run_on_streams(graph, problem, {.limit = limit});
      } catch (const RunError& error) {
        ASSERT_THAT(error.what(), HasSubstr("out of device memory"));
        break;
      }
      ASSERT_EQ(scarce.final, plenty.final);
      ASSERT_THAT(scarce.faults, IsEmpty());
      ASSERT_THAT(scarce.broken_edges, IsEmpty());
      ASSERT_LE(scarce.use.allocated, limit);
    }
    if (scarce.waits > plenty.waits) ++waited_more;
  }
  EXPECT_GT(waited_more, 20);
}

/// However far the host is ahead of a device that it never has to wait for.
TEST(StreamMemory, TakesAtMostTwiceWhatIsHeld) {
  for (const char* schedule : {"dsp", "gpipe:recompute=always", "1f1b", "ddg"}) {
    const auto allocated = [&](int batches) {
      const TaskGraph graph = ScheduleSpec::parse(schedule)
                                  .make({.stages = 3, .micro_batches = 4, .batches = batches})
                                  .build();
      const Outcome found = run_on_streams(graph, problem_of(graph), {.window = graph.size()});
      EXPECT_THAT(found.faults, IsEmpty());
      EXPECT_LE(found.use.allocated, 2 * found.use.peak) << schedule << ": " << batches;
      return found.use.allocated;
    };
    EXPECT_EQ(allocated(60), allocated(20)) << schedule;
  }
}

/// The checks above can fail: most waits that are left out break an edge or an access.
TEST(StreamBackend, MissesAnyWaitThatIsForgotten) {
  for (const char* schedule :
       {"bp", "1f1b", "fdg", "dsp", "ddg:form=mailbox", "zb-h1", "dgl", "dni:delta=2", "dfa"}) {
    const TaskGraph graph =
        ScheduleSpec::parse(schedule).make({.stages = 3, .micro_batches = 4, .batches = 3}).build();
    const ChainProblem problem = problem_of(graph);
    const int waits = run_on_streams(graph, problem).waits;
    int missed = 0;
    for (int number = 1; number <= waits; ++number) {
      const Outcome found = run_on_streams(graph, problem, {.forgotten_wait = number});
      if (!found.faults.empty() || !found.broken_edges.empty()) ++missed;
    }
    // Those not missed are implied by other waits.
    EXPECT_GT(missed, waits / 2) << schedule << ": " << waits << " waits";
  }
}

TEST(StreamBackend, KeepsTheOrderOfEveryLane) {
  for (const TaskGraph& graph : small_graphs()) {
    RecordingStreams streams(graph);
    StreamOrder order(graph, streams, graph.size());
    NoWork nothing;
    StreamBackend backend(graph, order, nothing);
    const Timeline timeline = run(graph, backend);
    ASSERT_EQ(streams.tasks_by_lane(), tasks_by_lane(graph)) << describe(graph);
    ASSERT_EQ(timeline.spans.size(), static_cast<std::size_t>(graph.size()));
  }
}

TEST(StreamMemory, NamesTaskNeedUseAndLimit) {
  const TaskGraph graph =
      ScheduleSpec::parse("gpipe").make({.stages = 2, .micro_batches = 8}).build();
  try {
    run_on_streams(graph, problem_of(graph), {.limit = 2560});
    FAIL() << "eight tapes fit nowhere";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0, task 0F"));
    EXPECT_THAT(error.what(), HasSubstr("256 bytes are needed beside the 2560 in use on rank 0, of "
                                        "2560 allowed"));
  }
}

TEST(StreamMemory, SaysWhenTheDeviceHasNoMore) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 2}).build();
  try {
    run_on_streams(graph, problem_of(graph), {.device = 1024});
    FAIL() << "the weights alone fill it";
  } catch (const RunError& error) {
    EXPECT_STREQ(
        error.what(),
        "rank 0, task 0F0: out of device memory: 256 bytes are needed for rank 0; on device "
        "0 rank 0 holds 512, rank 1 holds 512, and 0 of 1024 are free");
  }
}

/// A weight and a gradient of 256 bytes each, so that there is room for those of two stages.
TEST(StreamMemory, NamesTheStageWhoseWeightsFindNoRoom) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 3}).build();
  try {
    run_on_streams(graph, problem_of(graph), {.device = 1024});
    FAIL() << "the weights alone fill it";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(),
                 "rank 2, weights, gradients and optimizer state of stage 2: out of device memory: "
                 "256 bytes are needed for rank 2; on device 0 rank 0 holds 512, rank 1 holds 512, "
                 "rank 2 holds 0, and 0 of 1024 are free");
  }
}

/// What a rank has dropped, and could have again, is no reason to refuse another on its device.
TEST(StreamMemory, GivesBackWhatOtherRanksOfTheDeviceKeepForLater) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 3}).build();
  Device device(graph, 16, 0);
  device.source.limit(1024);
  device.source.share_among(2);  // ranks 0 and 2 share the first
  const Rank first{0}, second{1}, third{2};
  { const Tensor dropped = device.memory.take(first, 512); }
  { const Tensor elsewhere = device.memory.take(second, 256); }
  EXPECT_FALSE(device.memory.take(third, 768).empty());
  EXPECT_EQ(device.memory.use_of(first).allocated, 0U);
  EXPECT_EQ(device.memory.use_of(second).allocated, 256U) << "of another device";
}

TEST(StreamPool, RunsAheadByWhatTasksHoldAndNotByWhatWasDroppedBeforeTheRun) {
  StreamBlock stays{.size = 1024}, first{.size = 256, .number = 1},
      second{.size = 256, .number = 2};
  StreamPool pool;
  for (const StreamBlock* block : {&stays, &first}) pool.add(*block);
  pool.hold(stays, std::nullopt);
  for (int time = 0; time < 3; ++time) {
    pool.hold(first, std::nullopt);
    pool.drop(first, std::nullopt);
  }
  pool.hold(first, TaskId{0});
  EXPECT_TRUE(pool.may_run_ahead(256));
  EXPECT_FALSE(pool.begins_to_run_ahead(TaskId{1})) << "no update yet";
  pool.note_update(TaskId{1});
  EXPECT_TRUE(pool.begins_to_run_ahead(TaskId{2}));
  EXPECT_THAT(pool.lacking(), testing::ElementsAre(256)) << "what stays needs no second";
  pool.add(second);
  pool.drop(first, TaskId{2});
  EXPECT_FALSE(pool.may_run_ahead(256)) << "one is held at most, and there are two";
  EXPECT_THAT(pool.lacking(), IsEmpty());
  pool.note_update(TaskId{3});
  EXPECT_FALSE(pool.begins_to_run_ahead(TaskId{4})) << "nothing more was held";
}

TEST(StreamMemory, CountsWhatIsReservedBesideThePool) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 2}).build();
  Device device(graph, 16, 1024);
  const Rank rank{1};
  {
    const Tensor reserved = device.memory.reserve(rank, 768, "a library");
    const Tensor taken = device.memory.take(rank, 256);
    EXPECT_EQ(device.memory.use_of(rank).reserved, 768U);
    EXPECT_EQ(device.memory.use_of(rank).allocated, 1024U);
    EXPECT_EQ(device.memory.use_of(rank).peak, 256U);
    try {
      device.memory.take(rank, 1);
      FAIL() << "beyond the limit";
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("256 bytes are needed beside the 256 in use on rank 1 and "
                            "768 reserved, of 1024 allowed"));
    }
  }
  EXPECT_EQ(device.memory.use_of(rank).reserved, 0U);
  EXPECT_EQ(device.memory.use_of(rank).allocated, 256U);
  EXPECT_FALSE(device.memory.take(rank, 768).empty());
}

/// A device that fails once it gets to a mark.
class FailingStreams : public RecordingStreams {
 public:
  using RecordingStreams::RecordingStreams;
  nanoseconds reached(int mark) override {
    if (mark == 2 * 5 + 1) throw RunError("cudaEventSynchronize: unspecified launch failure");
    return RecordingStreams::reached(mark);
  }
};

/// Each task waits for the one before the last, as those do that want its memory.
class Waiting : public TaskRunner {
 public:
  explicit Waiting(StreamOrder& order) : order_(order) {}
  void run(const Task&, Workspace&) override {
    const int task = order_.current()->value;
    if (task >= 2) order_.wait_until_over(TaskId{task - 2});
  }

 private:
  StreamOrder& order_;
};

/// Once, whether the host asks at the end or within a later task.
TEST(StreamOrder, NamesTheTaskAtWhichTheDeviceFailed) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 2, .batches = 4}).build();
  for (const bool waits : {false, true}) {
    FailingStreams streams(graph);
    StreamOrder order(graph, streams);
    NoWork nothing;
    Waiting waiting(order);
    StreamBackend backend(graph, order, waits ? static_cast<TaskRunner&>(waiting) : nothing);
    const Task& task = graph.task(TaskId{5});
    try {
      run(graph, backend);
      FAIL();
    } catch (const RunError& error) {
      EXPECT_EQ(error.what(), fmt::format("rank {}, task {}: cudaEventSynchronize: unspecified "
                                          "launch failure",
                                          graph.rank(task).value, label(task)));
    }
  }
}

TEST(StreamBackend, StopsWhenCancelled) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 2}).build();
  RecordingStreams streams(graph);
  StreamOrder order(graph, streams);
  NoWork nothing;
  const std::atomic<bool> cancel{true};
  StreamBackend backend(graph, order, nothing, &cancel);
  EXPECT_THROW(run(graph, backend), Cancelled);
}

}  // namespace
}  // namespace unlatch::exec
