// StreamReplay without a device: what is launched again computes what the CPU computes, in an order
// that no wait is missing from.
#include "exec/stream_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "exec/cpu_backend.h"
#include "exec/executor.h"
#include "exec/numerics.h"
#include "exec/scalar_chain.h"
#include "exec/stage_runner.h"
#include "exec/stream_backend.h"
#include "schedules/error.h"
#include "tests/exec/chain_problem.h"
#include "tests/exec/noted_device.h"
#include "tests/exec/noted_heads.h"
#include "tests/support/small_graphs.h"

namespace unlatch::exec {
namespace {

using testing::IsEmpty;
using testing_support::describe;

struct Outcome {
  std::vector<double> final;
  std::vector<double> losses;
  std::vector<std::vector<double>> heads;
  std::vector<std::string> faults;
  std::vector<std::string> broken_edges;
  StreamReplay::Counts counts;
};

Outcome run_replayed(const TaskGraph& graph, const ChainProblem& problem,
                     std::function<double(int)> rate) {
  NotedDevice device(graph);
  std::vector<std::unique_ptr<StageModule>> owned;
  std::vector<StageModule*> modules;
  for (int k = 0; k < graph.shape().stages; ++k) {
    const auto at = static_cast<std::size_t>(graph.shape().model_stage(Stage{k}).value);
    owned.push_back(std::make_unique<NotedStage>(device, Stage{k}, problem.weights[at]));
    modules.push_back(owned.back().get());
  }
  Outcome outcome;
  outcome.losses.resize(static_cast<std::size_t>(graph.shape().all_micro_batches()));
  ScalarFeed host_feed(problem.x, problem.y);
  NotedFeed feed(device, host_feed);
  const auto note = [&](MicroBatch i, const Loss& loss) { outcome.losses[i.value] = loss.loss; };
  const auto heads = noted_heads(device);
  std::vector<LocalHead*> lent_heads;
  for (const auto& head : heads) lent_heads.push_back(head.get());
  StageRunner runner(graph, modules, feed, std::move(rate), {.loss = note, .update = {}},
                     lent_heads);
  StreamBackend backend(graph, device.order, runner);
  run(graph, backend);
  for (const Stage k : up_to<Stage>(graph.shape().stages_a_copy())) {
    outcome.final.push_back(*runner.weights(k).data<double>());
  }
  for (const LocalHead* head : lent_heads) {
    if (head != nullptr) outcome.heads.push_back(head->parameters());
  }
  outcome.faults = device.streams.recording().faults();
  outcome.broken_edges = device.streams.recording().broken_edges(graph);
  outcome.counts = device.replay.counts();
  return outcome;
}

constexpr int batches = 60;

/// Those whose mathematics NotedStage has.
std::vector<TaskGraph> graphs() {
  std::vector<TaskGraph> all = testing_support::small_graphs(batches);
  std::erase_if(all, [](const TaskGraph& graph) {
    const Learning& learning = graph.learning();
    const bool reduces = graph.shape().copies == 1 || learning.agreement.is_dense_all_reduce();
    return !reduces || learning.drift_decay != 0 || learning.rescaled_updates != 0;
  });
  return all;
}

TEST(StreamReplay, LaunchesAgainWhatComesAgainWithTheNumbersOfTheCpu) {
  int mostly_launched = 0, all = 0;
  for (const TaskGraph& graph : graphs()) {
    SCOPED_TRACE(describe(graph));
    const ChainProblem problem = problem_of(graph);
    const ChainResult expected = run_chain(graph, problem, {.workers = 1});
    const Outcome found = run_replayed(graph, problem, [](int) { return 0.1; });
    ASSERT_EQ(found.final, expected.final);
    ASSERT_EQ(found.losses, expected.losses);
    ASSERT_EQ(found.heads, expected.heads);
    ASSERT_THAT(found.faults, IsEmpty());
    ASSERT_THAT(found.broken_edges, IsEmpty());
    const auto& [put, captured, launched] = found.counts;
    if (launched > (put + captured + launched) / 3) ++mostly_launched;
    ++all;
  }
  EXPECT_GT(all, 400);
  EXPECT_GT(mostly_launched, all * 8 / 10);  // the others take many versions of weights in turn
}

/// What no address shows is in the words too.
TEST(StreamReplay, PutsWhatHasAnotherRate) {
  const TaskGraph graph = ScheduleSpec::parse("1f1b")
                              .make({.stages = 2, .micro_batches = 4, .batches = batches})
                              .build();
  const ChainProblem problem = problem_of(graph);
  const auto rate = [](int batch) { return batch < batches / 2 ? 0.1 : 0.01; };
  const auto stages =
      scalar_chain_stages(problem.weights, std::vector<int>{1, 1}, Activation::tanh, {});
  ScalarFeed feed(problem.x, problem.y);
  StageRunner runner(graph, {stages[0].get(), stages[1].get()}, feed, rate);
  CpuBackend backend(graph, runner, {.workers = 1});
  run(graph, backend);
  const Outcome found = run_replayed(graph, problem, rate);
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(found.final[static_cast<std::size_t>(k)], *runner.weights(Stage{k}).data<double>());
  }
  const int captured = run_replayed(graph, problem, [](int) { return 0.1; }).counts.captured;
  EXPECT_EQ(found.counts.captured, 2 * captured);
}

TEST(StreamReplay, FindsTheTasksThatRepeat) {
  const auto repeat = [](const char* schedule, Shape shape) {
    return tasks_that_repeat(ScheduleSpec::parse(schedule).make(shape).build());
  };
  EXPECT_EQ(repeat("bp", {.stages = 3, .batches = 8}), 9);  // F, B and U of each stage
  EXPECT_EQ(repeat("gpipe", {.stages = 2, .micro_batches = 4, .batches = 8}), 18);
  EXPECT_EQ(repeat("bp", {.stages = 3, .batches = 1}), 9);  // nothing comes again
}

TEST(StreamReplay, FindsTasksThatRepeatInEverySchedule) {
  for (const TaskGraph& graph : graphs()) {
    if (!graph.learning().sources.empty()) continue;  // stages take turns at random
    const int period = tasks_that_repeat(graph);
    for (int i = graph.size() / 4; i + period < graph.size() * 3 / 4; ++i) {
      const Task& task = graph.task(TaskId{i});
      const Task& again = graph.task(TaskId{i + period});
      ASSERT_EQ(std::tuple(again.op, again.stage, again.lane, again.flags),
                std::tuple(task.op, task.stage, task.lane, task.flags))
          << describe(graph);
    }
  }
}

/// A device that counts, and fails when it is told to.
class CountingStreams : public GraphStreams {
 public:
  void record(int, LaneId) override {}
  void wait(LaneId, int) override {}
  nanoseconds reached(int) override { return nanoseconds(0); }
  void fork_lanes() override {}
  void join_lanes() override {}
  void begin_capture() override {}
  int end_capture() override { return graphs++; }
  void give_up_capture() noexcept override { ++given_up; }
  void launch_graph(int, int first, int last) override {
    ++launched;
    names.emplace_back(first, last);
  }
  void destroy_graph(int) noexcept override { ++destroyed; }
  void note_piece(int number) override { noted.push_back(number); }
  void wait_for_piece(int number) override { waited_for.push_back(number); }
  int graphs = 0, given_up = 0, launched = 0, destroyed = 0;
  std::vector<int> noted, waited_for;
  std::vector<std::pair<int, int>> names;  ///< first and last marks of what was launched
};

TEST(StreamReplay, CapturesWhatComesTheSecondTimeAndForgetsTheOldest) {
  CountingStreams device;
  int done = 0;
  {
    StreamReplay replay(device, 1);
    const auto piece = [&](std::uint64_t word) {
      replay.add(StreamReplay::words_of(word), [&] { ++done; });
      replay.end_piece();
    };
    for (int time = 0; time < 5; ++time) piece(7);
    EXPECT_EQ(done, 2);  // put, then noted
    EXPECT_EQ(device.launched, 4);
    for (std::uint64_t word = 100; word < 100 + StreamReplay::most_remembered; ++word) piece(word);
    EXPECT_EQ(device.destroyed, 1);
    piece(7);
    EXPECT_EQ(replay.counts().captured, 1);
    replay.end_piece();  // nothing was added: no piece
    EXPECT_EQ(replay.counts().put, static_cast<int>(StreamReplay::most_remembered) + 2);
    piece(7);
    EXPECT_EQ(replay.counts().captured, 2);
  }
  EXPECT_EQ(device.destroyed, 2);
}

// The device has a piece before the host waits for the one before it, and never more of them than
// it can tell apart.
TEST(StreamReplay, WaitsForAPieceOnlyBehindTheNext) {
  const TaskGraph graph =
      ScheduleSpec::parse("1f1b").make({.stages = 2, .micro_batches = 4, .batches = 12}).build();
  const int piece = tasks_that_repeat(graph);
  CountingStreams device;
  StreamReplay replay(device, piece);
  StreamOrder order(graph, replay, 2 * piece);
  NoWork nothing;
  StreamBackend backend(graph, order, nothing);
  for (const TaskId id : graph.ids()) {
    backend.launch(id);
    if (device.waited_for.empty()) continue;
    ASSERT_GT(device.noted.back(), device.waited_for.back());
    ASSERT_LT(device.noted.back(), device.waited_for.back() + GraphStreams::pieces_noted);
  }
  EXPECT_FALSE(device.waited_for.empty());
  backend.synchronize();
  EXPECT_EQ(device.noted.back(), device.waited_for.back());
}

/// Also where a piece ends within a task.
TEST(StreamReplay, NamesWhatItLaunchesByItsMarks) {
  CountingStreams device;
  StreamReplay replay(device, 2);
  const LaneId lane{0};
  for (int time = 0; time < 3; ++time) {
    for (const int mark : {0, 1, 2, 3, 4}) replay.record(mark, lane);
    replay.end_piece();
    for (const int mark : {5, 6, 7}) replay.record(mark, lane);
    replay.end_piece();
  }
  using testing::Pair;
  EXPECT_THAT(device.names, testing::ElementsAre(Pair(0, 3), Pair(4, 4), Pair(5, 7), Pair(0, 3),
                                                 Pair(4, 4), Pair(5, 7)));
}

TEST(StreamReplay, TellsTwoCallsFromOne) {
  CountingStreams device;
  StreamReplay replay(device, 1);
  const auto nothing = [] {};
  for (int time = 0; time < 2; ++time) {
    replay.add(StreamReplay::words_of(1, 2), nothing);
    replay.end_piece();
    replay.add(StreamReplay::words_of(1), nothing);
    replay.add(StreamReplay::words_of(2), nothing);
    replay.end_piece();
  }
  EXPECT_EQ(replay.counts().put, 2);
  EXPECT_EQ(replay.counts().captured, 2);
}

TEST(StreamReplay, GivesUpACaptureThatFails) {
  CountingStreams device;
  StreamReplay replay(device, 1);
  bool fails = false;
  const auto piece = [&] {
    replay.add(StreamReplay::words_of(1), [&] {
      if (fails) throw RunError("cudaLaunchKernel: out of memory");
    });
    replay.end_piece();
  };
  piece();
  fails = true;
  EXPECT_THROW(piece(), RunError);
  EXPECT_EQ(device.given_up, 1);
  EXPECT_EQ(device.launched, 0);
}

}  // namespace
}  // namespace unlatch::exec
