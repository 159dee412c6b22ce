// What several ranks on one machine cost over one rank at the same work (case O41: not more
// than 1.5 times the time of P=1 with P=4 on two cores): a training run on the CPU, batches of
// micro-batches by 1F1B, on one rank and on more in turn.
#include <benchmark/benchmark.h>

#include <chrono>

#include "exec/cpu_backend.h"
#include "exec/data_feed.h"
#include "exec/dnn_stage.h"
#include "exec/executor.h"
#include "exec/stage_runner.h"
#include "models/dataset.h"
#include "models/partition.h"
#include "schedules/registry.h"

namespace unlatch {
namespace {

constexpr int batch_size = 64, micro_batches = 4, batches = 10;

/// Everything of a run but the time that it takes to set it up.
class Training {
 public:
  explicit Training(int ranks)
      : graph_(ScheduleSpec::parse("1f1b")
                   .make({.stages = ranks, .micro_batches = micro_batches, .batches = batches})
                   .build()),
        data_(models::load_data("digits")),
        model_(models::make_model("resnet20", data_.train.shape, data_.train.classes)),
        feed_(data_.train, model_.input, batch_size, micro_batches, 1),
        stages_(exec::make_dnn_stages(
            model_, models::uniform_partition(static_cast<int>(model_.layers.size()), ranks),
            {.micro_batch_size = batch_size / micro_batches})) {}

  double run_ms() {
    std::vector<exec::StageModule*> modules;
    for (const auto& stage : stages_) modules.push_back(stage.get());
    exec::StageRunner runner(graph_, modules, feed_, [](int) { return 0.01; });
    const auto begin = std::chrono::steady_clock::now();
    exec::CpuBackend backend(graph_, runner);
    benchmark::DoNotOptimize(exec::run(graph_, backend));
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

 private:
  TaskGraph graph_;
  models::DataSplit data_;
  models::Model model_;
  exec::DataFeed feed_;
  std::vector<std::unique_ptr<exec::DnnStageModule>> stages_;
};

/// `over_one_rank` is what the case limits; a repetition gives one.
void RanksOverOneRank(benchmark::State& state) {
  Training one(1), several(static_cast<int>(state.range(0)));
  double one_ms = 0, several_ms = 0;
  for (auto _ : state) {
    one_ms += one.run_ms();
    several_ms += several.run_ms();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["one_rank_ms"] = one_ms / runs;
  state.counters["ranks_ms"] = several_ms / runs;
  state.counters["over_one_rank"] = several_ms / one_ms;
}
BENCHMARK(RanksOverOneRank)->Arg(2)->Arg(4)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace unlatch

BENCHMARK_MAIN();
