// Speed and memory of the simulator on 1F1B: graph building apart from simulation, both together,
// without a graph, and beside them a plain sweep over arrays, which knows nothing but the edges.
//
// Arguments: ranks P, micro-batches M. Counters: tasks and nanoseconds a task, bytes a task of
// graph and timeline together, and peak memory of the process (of the largest run so far).
#include <benchmark/benchmark.h>

#include <sys/resource.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "schedules/registry.h"
#include "sim/event_simulator.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "sim/streamed_run.h"
#include "tests/bench/nodes_of_eight.h"

namespace unlatch::sim {
namespace {

Schedule schedule_of(const benchmark::State& state) {
  const Shape shape{.stages = static_cast<int>(state.range(0)),
                    .micro_batches = static_cast<int>(state.range(1))};
  return ScheduleSpec::parse("1f1b").make(shape);
}
TaskGraph one_f_one_b(const benchmark::State& state) { return schedule_of(state).build(); }

void count_tasks(benchmark::State& state, std::int64_t tasks) {
  const auto all = static_cast<double>(tasks) * static_cast<double>(state.iterations());
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["s/task"] =
      benchmark::Counter(all, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// The same iteration as bare arrays: tasks of one length each, edges to those that wait.
class PlainPipeline {
 public:
  PlainPipeline(int ranks, int micro_batches) : ranks_(ranks), parts_(micro_batches) {
    std::vector<std::pair<int, int>> edges;
    for (int r = 0; r < ranks; ++r) {
      int last = -1;
      const auto then = [&](int task) {
        if (last >= 0) edges.emplace_back(last, task);
        last = task;
      };
      const int ahead = std::min(ranks - 1 - r, micro_batches);
      for (int i = 0; i < micro_batches + ahead; ++i) {
        if (i < micro_batches) then(forward(r, i));
        if (i >= ahead) then(forward(r, i - ahead) + 1);
      }
      for (int i = 0; i < micro_batches; ++i) {
        if (r > 0) edges.emplace_back(forward(r - 1, i), forward(r, i));
        if (r > 0) edges.emplace_back(forward(r, i) + 1, forward(r - 1, i) + 1);
      }
    }
    waits_.assign(static_cast<std::size_t>(size()), 0);
    first_.assign(static_cast<std::size_t>(size()) + 1, 0);
    for (const auto& [from, to] : edges) {
      ++first_[from + 1];
      ++waits_[to];
    }
    for (int id = 0; id < size(); ++id) first_[id + 1] += first_[id];
    next_.resize(edges.size());
    std::vector<int> place(first_.begin(), first_.end() - 1);
    for (const auto& [from, to] : edges) next_[place[from]++] = to;
    left_.resize(waits_.size());
    end_.resize(waits_.size());
    queue_.resize(waits_.size());
  }

  int size() const { return 2 * ranks_ * parts_; }

  /// Forward 1, backward 2; the makespan is 3 (M + P - 1).
  double sweep() {
    std::ranges::copy(waits_, left_.begin());
    std::ranges::fill(end_, 0.0);
    int tail = 0;
    for (int id = 0; id < size(); ++id) {
      if (left_[id] == 0) queue_[tail++] = id;
    }
    double makespan = 0;
    for (int head = 0; head < tail; ++head) {
      const int id = queue_[head];
      const double end = end_[id] + (id % 2 == 0 ? 1.0 : 2.0);
      makespan = std::max(makespan, end);
      for (int edge = first_[id]; edge < first_[id + 1]; ++edge) {
        const int to = next_[edge];
        end_[to] = std::max(end_[to], end);
        if (--left_[to] == 0) queue_[tail++] = to;
      }
    }
    return makespan;
  }

 private:
  int forward(int rank, int part) const { return 2 * (rank * parts_ + part); }

  int ranks_, parts_;
  std::vector<int> waits_, first_, next_;  ///< by task; successors in compressed rows
  std::vector<int> left_, queue_;
  std::vector<double> end_;
};

void plain_sweep(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const int parts = static_cast<int>(state.range(1));
  PlainPipeline pipeline(ranks, parts);
  for (auto _ : state) {
    if (pipeline.sweep() != 3.0 * (parts + ranks - 1)) state.SkipWithError("wrong makespan");
  }
  count_tasks(state, pipeline.size());
}

void build_graph(benchmark::State& state) {
  for (auto _ : state) {
    const TaskGraph graph = one_f_one_b(state);
    benchmark::DoNotOptimize(graph.tasks().data());
  }
  count_tasks(state, one_f_one_b(state).size());
}

void simulate(benchmark::State& state) {
  const TaskGraph graph = one_f_one_b(state);
  const StageCosts costs(stage_times({}, graph.shape().stages));
  std::size_t timeline_bytes = 0;
  for (auto _ : state) {
    const Timeline timeline = run(graph, costs);
    benchmark::DoNotOptimize(timeline.spans.data());
    timeline_bytes = timeline.spans.capacity() * sizeof(Span);
  }
  count_tasks(state, graph.size());
  state.counters["bytes/task"] =
      static_cast<double>(graph.memory_bytes() + timeline_bytes) / graph.size();
}

void build_and_simulate(benchmark::State& state) {
  const StageCosts costs(stage_times({}, static_cast<int>(state.range(0))));
  for (auto _ : state) {
    const Timeline timeline = run(one_f_one_b(state), costs);
    benchmark::DoNotOptimize(timeline.spans.data());
  }
  count_tasks(state, one_f_one_b(state).size());
}

/// Making the schedule and measuring it included; no task is held.
void stream(benchmark::State& state) {
  const StageCosts costs(stage_times({}, static_cast<int>(state.range(0))));
  std::int64_t tasks = 0;
  for (auto _ : state) {
    tasks = run_streamed(schedule_of(state), costs, costs.links(), {}).tasks;
  }
  count_tasks(state, tasks);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void simulate_shared_links(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const StageCosts costs(stage_times({.transfer = "1"}, ranks));
  const TaskGraph graph = with_transfers(one_f_one_b(state), costs.links());
  const NodesOfEight traffic(ranks, 5e5);
  for (auto _ : state) {
    const Timeline timeline = run(graph, costs, traffic);
    benchmark::DoNotOptimize(timeline.spans.data());
  }
  const auto transfers =
      std::ranges::count_if(graph.tasks(), [](const Task& task) { return is_send(task.op); });
  state.counters["transfers"] = static_cast<double>(transfers);
  state.counters["s/transfer"] =
      benchmark::Counter(static_cast<double>(transfers) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"P", "M"})->Args({8, 128})->Args({16, 1024})->Args({64, 4096});
  bench->Unit(benchmark::kMillisecond);
}

/// About 1e3 to 1e8 tasks.
void lengths(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"P", "M"})->Args({8, 64})->Args({64, 78})->Args({64, 781})->Args({64, 7812});
  bench->Args({64, 78125})->Args({64, 781250})->Unit(benchmark::kMillisecond);
}

BENCHMARK(stream)->Apply(lengths);  // first, so that its peak memory is its own
BENCHMARK(plain_sweep)->Apply(shapes);
BENCHMARK(simulate)->Apply(shapes);
BENCHMARK(build_graph)->Apply(shapes);
BENCHMARK(build_and_simulate)->Apply(shapes);
BENCHMARK(simulate_shared_links)->Apply(shapes);

}  // namespace
}  // namespace unlatch::sim

BENCHMARK_MAIN();
