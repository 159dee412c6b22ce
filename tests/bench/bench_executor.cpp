// How fast the executor gets through tasks that do nothing, beside the plainest thing that could:
// two threads bound to the stages, an atomic counter a task, no clock, no failure handling. Beside
// it Taskflow and oneTBB, where they were found, which run a task on any of two workers. And how
// much longer tasks of 20 us take together than the simulator says they must.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "exec/cpu_backend.h"
#include "exec/executor.h"
#include "schedules/registry.h"
#include "sim/simulator.h"
#include "tests/bench/free_placement.h"

namespace unlatch {
namespace {

TaskGraph one_iteration(const benchmark::State& state) {
  return ScheduleSpec::parse("1f1b")
      .make({.stages = static_cast<int>(state.range(0)),
             .micro_batches = static_cast<int>(state.range(1))})
      .build();
}

void report(benchmark::State& state, const TaskGraph& graph) {
  state.SetItemsProcessed(state.iterations() * graph.size());
}

class Nothing : public exec::TaskRunner {
 public:
  void run(const Task&, exec::Workspace&) override {}
};

void Executor(benchmark::State& state) {
  const TaskGraph graph = one_iteration(state);
  Nothing nothing;
  for (auto _ : state) {
    exec::CpuBackend backend(graph, nothing, {.workers = 2});
    benchmark::DoNotOptimize(exec::run(graph, backend));
  }
  report(state, graph);
}

/// Successors and counts of predecessors, and each rank's tasks in order.
struct Reference {
  explicit Reference(const TaskGraph& graph)
      : lanes(tasks_by_lane(graph)), first(graph.size() + 1, 0), left(graph.size()) {
    for (const TaskId id : graph.ids()) {
      for (const Edge edge : graph.edges_into(id)) ++first[edge.from().value + 1];
    }
    for (int i = 0; i < graph.size(); ++i) first[i + 1] += first[i];
    next.resize(first.back());
    std::vector<std::uint32_t> place(first.begin(), first.end() - 1);
    for (const TaskId id : graph.ids()) {
      for (const Edge edge : graph.edges_into(id)) next[place[edge.from().value]++] = id.value;
    }
  }
  std::vector<std::vector<TaskId>> lanes;
  std::vector<std::uint32_t> first;
  std::vector<int> next;
  std::vector<std::atomic<std::uint32_t>> left;
};

void bound_thread(Reference& r, std::size_t first_lane, std::size_t threads) {
  std::vector<std::size_t> at(r.lanes.size(), 0);
  std::size_t todo = 0, idle = 0;
  for (std::size_t l = first_lane; l < r.lanes.size(); l += threads) todo += r.lanes[l].size();
  while (todo > 0) {
    const std::size_t before = todo;
    for (std::size_t l = first_lane; l < r.lanes.size(); l += threads) {
      while (at[l] < r.lanes[l].size()) {
        const int task = r.lanes[l][at[l]].value;
        if (r.left[task].load(std::memory_order_acquire) != 0) break;
        ++at[l];
        --todo;
        for (std::uint32_t e = r.first[task]; e < r.first[task + 1]; ++e) {
          r.left[r.next[e]].fetch_sub(1, std::memory_order_acq_rel);
        }
      }
    }
    if (todo == before && ++idle > 200) {
      std::this_thread::yield();
      idle = 0;
    }
  }
}

void TwoBoundThreads(benchmark::State& state) {
  const TaskGraph graph = one_iteration(state);
  Reference reference(graph);
  for (auto _ : state) {
    for (const TaskId id : graph.ids()) {
      reference.left[id.value].store(static_cast<std::uint32_t>(graph.edges_into(id).size()),
                                     std::memory_order_relaxed);
    }
    std::thread other([&] { bound_thread(reference, 1, 2); });
    bound_thread(reference, 0, 2);
    other.join();
  }
  report(state, graph);
}

using Make = std::unique_ptr<bench::FreePlacement> (*)(const TaskGraph&,
                                                       const std::function<void()>&);

void free_placement(benchmark::State& state, Make make) {
  const TaskGraph graph = one_iteration(state);
  std::atomic<int> ran = 0;
  const auto peer = make(graph, [&] { ran.fetch_add(1, std::memory_order_relaxed); });
  if (peer == nullptr) {
    state.SkipWithError("not found when this was built");
    return;
  }
  for (auto _ : state) peer->run();
  if (ran != state.iterations() * graph.size()) state.SkipWithError("tasks were left out");
  report(state, graph);
}
void Taskflow(benchmark::State& state) { free_placement(state, bench::taskflow); }
void OneTbb(benchmark::State& state) { free_placement(state, bench::one_tbb); }

constexpr std::chrono::microseconds busy_time{20};

void be_busy() {
  const auto end = std::chrono::steady_clock::now() + busy_time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

class Busy : public exec::TaskRunner {
 public:
  void run(const Task&, exec::Workspace&) override { be_busy(); }
};

/// Every task as long as every other.
class BusyCosts : public sim::CostModel {
 public:
  nanoseconds duration(const Task&) const override { return busy_time; }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// `over_ideal`: a run's time over that of its graph in the simulator, the median of the runs.
void ExecutorBusy(benchmark::State& state) {
  const TaskGraph graph = one_iteration(state);
  Busy busy;
  const auto ideal = static_cast<double>(makespan(sim::run(graph, BusyCosts())).count());
  std::vector<double> over_ideal;
  for (auto _ : state) {
    exec::CpuBackend backend(graph, busy, {.workers = 2});
    const nanoseconds took = makespan(exec::run(graph, backend));
    over_ideal.push_back(static_cast<double>(took.count()) / ideal);
  }
  state.counters["over_ideal"] = median(over_ideal);
  report(state, graph);
}

// Interleaved, so that all see the same machine; compare the medians.
void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({2, 16384})
      ->Args({16, 1024})
      ->MeasureProcessCPUTime()
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(Executor)->Apply(sizes);
BENCHMARK(TwoBoundThreads)->Apply(sizes);
BENCHMARK(Taskflow)->Apply(sizes);
BENCHMARK(OneTbb)->Apply(sizes);
BENCHMARK(ExecutorBusy)->Args({2, 1024})->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace unlatch

BENCHMARK_MAIN();
