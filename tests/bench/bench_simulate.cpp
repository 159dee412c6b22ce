// Speed and memory of the simulator on 1F1B, graph building apart from simulation.
//
// Arguments: ranks P, micro-batches M. Counters: tasks a second, and bytes a task of graph and
// timeline together.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "schedules/registry.h"
#include "sim/event_simulator.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "tests/bench/nodes_of_eight.h"

namespace unlatch::sim {
namespace {

TaskGraph one_f_one_b(const benchmark::State& state) {
  const Shape shape{.stages = static_cast<int>(state.range(0)),
                    .micro_batches = static_cast<int>(state.range(1))};
  return ScheduleSpec::parse("1f1b").make(shape).build();
}

void count_tasks(benchmark::State& state, const TaskGraph& graph) {
  state.counters["tasks"] = graph.size();
  state.counters["tasks/s"] = benchmark::Counter(
      static_cast<double>(graph.size()) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

void build_graph(benchmark::State& state) {
  for (auto _ : state) {
    const TaskGraph graph = one_f_one_b(state);
    benchmark::DoNotOptimize(graph.tasks().data());
  }
  count_tasks(state, one_f_one_b(state));
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
  count_tasks(state, graph);
  state.counters["bytes/task"] =
      static_cast<double>(graph.memory_bytes() + timeline_bytes) / graph.size();
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

BENCHMARK(build_graph)->Apply(shapes);
BENCHMARK(simulate)->Apply(shapes);
BENCHMARK(simulate_shared_links)->Apply(shapes);

}  // namespace
}  // namespace unlatch::sim

BENCHMARK_MAIN();
