// Speed of reading and checking a schedule file of a million cells.
//
// Arguments: ranks P, micro-batches M of 1F1B. Counter: cells a second.
#include <benchmark/benchmark.h>

#include "files/native_json.h"
#include "files/schedule_file.h"
#include "files/table_schedule.h"
#include "schedules/registry.h"

namespace unlatch::files {
namespace {

Schedule one_f_one_b(const benchmark::State& state) {
  const Shape shape{.stages = static_cast<int>(state.range(0)),
                    .micro_batches = static_cast<int>(state.range(1))};
  return ScheduleSpec::parse("1f1b").make(shape);
}

void count_cells(benchmark::State& state) {
  const auto cells = static_cast<double>(2 * state.range(0) * state.range(1));
  state.counters["cells/s"] = benchmark::Counter(cells * static_cast<double>(state.iterations()),
                                                 benchmark::Counter::kIsRate);
}

void parse_csv(benchmark::State& state) {
  const std::string text = pipeline_csv(table_of(one_f_one_b(state)));
  for (auto _ : state) benchmark::DoNotOptimize(parse_pipeline_csv(text).table.rows.data());
  count_cells(state);
}

void read_and_check(benchmark::State& state, const char* name, const std::string& text) {
  for (auto _ : state) {
    const ScheduleFile file(name, text);
    if (!file.violations().empty()) state.SkipWithError("the file is not valid");
  }
  count_cells(state);
}

void check_csv(benchmark::State& state) {
  read_and_check(state, "bench.csv", pipeline_csv(table_of(one_f_one_b(state))));
}

void check_json(benchmark::State& state) {
  read_and_check(state, "bench.json", native_json(one_f_one_b(state)));
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"P", "M"})->Args({8, 62500})->Args({64, 7812});
  bench->Unit(benchmark::kMillisecond);
}

BENCHMARK(parse_csv)->Apply(shapes);
BENCHMARK(check_csv)->Apply(shapes);
BENCHMARK(check_json)->Apply(shapes);

}  // namespace
}  // namespace unlatch::files

BENCHMARK_MAIN();
