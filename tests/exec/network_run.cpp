#include "tests/exec/network_run.h"

#include <cmath>
#include <map>

#include "exec/cpu_backend.h"
#include "exec/dnn_heads.h"
#include "exec/evaluate.h"
#include "exec/executor.h"
#include "models/dataset.h"
#include "models/tied_head.h"
#include "schedules/joint_updates.h"
#include "schedules/registry.h"
#include "tests/support/small_text.h"

namespace unlatch::exec {
namespace {

constexpr int text_window = 8;

models::Model model_of(const NetworkRun& run) {
  const models::Dataset& data = loaded_data(run.data).train;
  return models::make_model(run.model, data.shape, data.classes);
}

TaskGraph graph_of(const NetworkRun& run, const models::Model& model) {
  Schedule schedule = ScheduleSpec::parse(run.schedule)
                          .make({.stages = run.stages,
                                 .chunks = run.chunks,
                                 .micro_batches = run.micro_batches,
                                 .batches = run.batches,
                                 .replicas = run.replicas});
  if (run.arranged) schedule = run.arranged(schedule);
  const bool sums_copies = models::has_tied_head(model) && run.stages > 1;
  return (sums_copies ? with_joint_updates(schedule) : schedule).build();
}

}  // namespace

const models::DataSplit& loaded_data(const std::string& specification) {
  static std::map<std::string, models::DataSplit> all;
  const auto found = all.find(specification);
  if (found != all.end()) return found->second;
  auto data = specification == "text" ? testing_support::small_text({text_window, 1, 1, true})
                                      : models::load_data(specification);
  return all.emplace(specification, std::move(data)).first->second;
}

Network::Network(const NetworkRun& run)
    : stages_a_copy_(run.stages), model_(model_of(run)), graph_(graph_of(run, model_)) {
  const models::Dataset& data = loaded_data(run.data).train;
  const int parts = graph_.shape().micro_batches;
  const DnnRun stage_run{.micro_batch_size = run.batch_size / parts,
                         .optimizer = models::OptimizerSpec::parse(run.optimizer),
                         .seed = network_seed};
  std::vector<StageModule*> modules;
  std::vector<LocalHead*> lent_heads;
  for (int copy = 0; copy < graph_.shape().copies; ++copy) {
    owned_.push_back(make_dnn_stages(
        model_, models::uniform_partition(static_cast<int>(model_.layers.size()), run.stages),
        stage_run));
    for (const auto& stage : owned_.back()) modules.push_back(stage.get());
    for (auto& head : make_dnn_heads(graph_.learning().local_gradients, owned_.back(), stage_run)) {
      lent_heads.push_back(head.get());
      heads_.push_back(std::move(head));
    }
  }
  feed_ = std::make_unique<DataFeed>(data, model_.input, run.batch_size, parts, network_seed);
  losses_.resize(static_cast<std::size_t>(graph_.shape().all_micro_batches()));
  const Observer observer{
      .loss = [this](MicroBatch i,
                     const Loss& loss) { losses_[static_cast<std::size_t>(i.value)] = loss.loss; },
      .update = {}};
  runner_ = std::make_unique<StageRunner>(graph_, modules, *feed_, run.rate, observer, lent_heads,
                                          run.statistics, run.clip);
}

std::vector<float> Network::weights(int copy) const {
  std::vector<Tensor> weights;
  for (const Stage k : up_to<Stage>(stages_a_copy_)) {
    weights.push_back(runner_->weights(k + copy * stages_a_copy_));
  }
  std::vector<float> all = joined_weights(weights);
  models::drop_copied_table(model_, all);
  return all;
}

std::vector<std::vector<float>> Network::statistics() const {
  std::vector<std::vector<float>> all;
  for (const auto& copy : owned_) all.push_back(joined_statistics(copy));
  return all;
}

std::vector<std::vector<double>> Network::head_parameters() const {
  std::vector<std::vector<double>> all;
  for (const auto& head : heads_) {
    if (head != nullptr) all.push_back(head->parameters());
  }
  return all;
}

TrainedNetwork train_network(const NetworkRun& run) {
  Network network(run);
  CpuBackend backend(network.graph(), network.runner(), {.workers = run.workers});
  exec::run(network.graph(), backend);
  return {.weights = network.weights(),
          .statistics = network.statistics().front(),
          .losses = network.losses()};
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
