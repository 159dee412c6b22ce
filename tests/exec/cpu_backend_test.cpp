#include "exec/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "exec/executor.h"
#include "exec/fake_backend.h"
#include "schedules/error.h"
#include "schedules/registry.h"

namespace unlatch::exec {
namespace {

TaskGraph graph_of(const std::string& schedule, const Shape& shape) {
  return ScheduleSpec::parse(schedule).make(shape).build();
}

/// Counts what ran; throws or cancels at one task.
class Recorder : public TaskRunner {
 public:
  void run(const Task& task, Workspace&) override {
    if (label(task) == fails_at) throw std::runtime_error("the disk is on fire");
    if (label(task) == cancels_at) cancelled = true;
    const std::lock_guard lock(mutex_);
    ran.push_back(label(task));
  }
  std::string fails_at, cancels_at;
  std::atomic<bool> cancelled{false};
  std::vector<std::string> ran;

 private:
  std::mutex mutex_;
};

TEST(CpuBackend, RunsEveryTaskOnceAfterItsPredecessors) {
  for (const std::string schedule :
       {"bp", "gpipe:recompute=always", "1f1b", "ddg", "ddg:form=mailbox", "fr", "fdg",
        "fdg:form=queue,order=bf", "dsp", "dsp:form=lockstep"}) {
    for (const int workers : {0, 1, 2, 3, 8}) {
      const TaskGraph graph = graph_of(schedule, {.stages = 4, .micro_batches = 3, .batches = 9});
      Recorder recorder;
      CpuBackend backend(graph, recorder, {.workers = workers});
      const Timeline timeline = run(graph, backend);
      std::size_t computing = 0;
      for (const TaskId id : graph.ids()) {
        computing += is_compute(graph.task(id).op) ? 1 : 0;
        for (const Edge edge : graph.edges_into(id)) {
          const Span& from = timeline[edge.from()];
          const auto ready = edge.kind() == EdgeKind::beside ? from.start : from.end;
          EXPECT_GE(timeline[id].start, ready) << schedule << ": " << label(graph.task(id))
                                               << " before " << label(graph.task(edge.from()));
        }
        EXPECT_GE(timeline[id].end, timeline[id].start);
      }
      EXPECT_EQ(recorder.ran.size(), computing) << schedule;
    }
  }
}

TEST(CpuBackend, StopsAtTheFirstFailureAndNamesRankAndTask) {
  const TaskGraph graph = graph_of("1f1b", {.stages = 4, .micro_batches = 8, .batches = 2});
  for (int repeat = 0; repeat < 20; ++repeat) {
    Recorder recorder;
    recorder.fails_at = "2B5";
    CpuBackend backend(graph, recorder);
    try {
      run(graph, backend);
      FAIL() << "the failure was swallowed";
    } catch (const RunError& error) {
      EXPECT_STREQ(error.what(), "rank 2, task 2B5: the disk is on fire");
    }
    EXPECT_THAT(recorder.ran, testing::Not(testing::Contains("1B5")));
  }
}

TEST(CpuBackend, StopsWhenCancelled) {
  const TaskGraph graph = graph_of("dsp", {.stages = 3, .batches = 50});
  Recorder recorder;
  recorder.cancels_at = "1F20";
  CpuBackend backend(graph, recorder, {.workers = 2, .cancel = &recorder.cancelled});
  EXPECT_THROW(run(graph, backend), Cancelled);
  EXPECT_THAT(recorder.ran, testing::Not(testing::Contains("0B49")));
}

TEST(CpuBackend, EndsWithoutHavingBeenStarted) {
  const TaskGraph graph = graph_of("1f1b", {.stages = 4, .micro_batches = 8});
  Recorder recorder;
  { const CpuBackend backend(graph, recorder); }
  EXPECT_TRUE(recorder.ran.empty());
}

TEST(CpuBackend, UsesNoMoreWorkersThanLanes) {
  Recorder recorder;
  const TaskGraph one = graph_of("bp", {.stages = 1, .batches = 3});
  CpuBackend backend(one, recorder, {.workers = 8});
  EXPECT_EQ(backend.workers(), 1);
  run(one, backend);
}

TEST(CpuBackend, KnowsWhenRecomputeHasNoWorkerOfItsOwn) {
  const TaskGraph graph = graph_of("dsp", {.stages = 2, .batches = 8});
  EXPECT_TRUE(CpuBackend::lanes_share_a_worker(graph, 2));
  EXPECT_FALSE(CpuBackend::lanes_share_a_worker(graph, 3));  // 2 compute lanes, 1 recompute lane
}

TEST(CpuBackend, RefusesANegativeNumberOfWorkers) {
  const TaskGraph graph = graph_of("bp", {.stages = 1});
  Recorder recorder;
  EXPECT_THROW(CpuBackend(graph, recorder, {.workers = -1}), Error);
}

}  // namespace
}  // namespace unlatch::exec
