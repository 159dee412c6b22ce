#include "tests/exec/network_run.h"

#include <cmath>
#include <map>

#include "exec/cpu_backend.h"
#include "exec/data_feed.h"
#include "exec/dnn_heads.h"
#include "exec/dnn_stage.h"
#include "exec/evaluate.h"
#include "exec/executor.h"
#include "models/dataset.h"
#include "schedules/registry.h"

namespace unlatch::exec {
namespace {

constexpr int batch_size = 16;

const models::DataSplit& loaded(const std::string& specification) {
  static std::map<std::string, models::DataSplit> all;
  const auto found = all.find(specification);
  if (found != all.end()) return found->second;
  return all.emplace(specification, models::load_data(specification)).first->second;
}

}  // namespace

TrainedNetwork train_network(const NetworkRun& run) {
  const models::DataSplit& data = loaded(run.data);
  const models::Model model = models::make_model(run.model, data.train.shape, data.train.classes);
  const ScheduleSpec spec = ScheduleSpec::parse(run.schedule);
  const TaskGraph graph = spec.make({.stages = run.stages,
                                     .chunks = run.chunks,
                                     .micro_batches = run.micro_batches,
                                     .batches = run.batches,
                                     .replicas = run.replicas})
                              .build();
  const int parts = graph.shape().micro_batches;
  const DnnRun stage_run{.micro_batch_size = batch_size / parts,
                         .optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9"),
                         .seed = 7};
  std::vector<std::vector<std::unique_ptr<DnnStageModule>>> owned;
  std::vector<std::unique_ptr<LocalHead>> heads;
  std::vector<StageModule*> modules;
  std::vector<LocalHead*> lent_heads;
  for (int copy = 0; copy < graph.shape().copies; ++copy) {
    owned.push_back(make_dnn_stages(
        model, models::uniform_partition(static_cast<int>(model.layers.size()), run.stages),
        stage_run));
    for (const auto& stage : owned.back()) modules.push_back(stage.get());
    for (auto& head : make_dnn_heads(graph.learning().local_gradients, owned.back(), stage_run)) {
      lent_heads.push_back(head.get());
      heads.push_back(std::move(head));
    }
  }
  DataFeed feed(data.train, model.input, batch_size, parts, 7);
  StageRunner runner(
      graph, modules, feed, [](int) { return 0.05; }, {}, lent_heads, run.statistics);
  CpuBackend backend(graph, runner, {.workers = run.workers});
  exec::run(graph, backend);
  TrainedNetwork trained{.weights = {}, .statistics = joined_statistics(owned.front())};
  for (const Stage k : up_to<Stage>(run.stages)) {
    for (const float w : runner.weights(k).as<float>()) trained.weights.push_back(w);
  }
  return trained;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace unlatch::exec
