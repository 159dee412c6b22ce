// A real network with everything that trains it by some schedule for a few batches.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/data_feed.h"
#include "exec/dnn_heads.h"
#include "exec/dnn_stage.h"
#include "exec/evaluate.h"
#include "exec/stage_runner.h"
#include "models/dataset.h"
#include "schedules/registry.h"

namespace unlatch::exec {

struct NetworkRun {
  std::string schedule = "bp";
  std::string model = "lenet";
  std::string data = "digits";
  int stages = 1;
  int chunks = 1;
  int micro_batches = 1;
  int workers = 0;
  int replicas = 1;
  int batches = 6;
  std::string optimizer = "momentum:momentum=0.9";
};

inline const models::DataSplit& loaded(const std::string& specification) {
  static std::map<std::string, models::DataSplit> all;
  const auto found = all.find(specification);
  if (found != all.end()) return found->second;
  return all.emplace(specification, models::load_data(specification)).first->second;
}

class Network {
 public:
  explicit Network(const NetworkRun& run)
      : stages_a_copy_(run.stages),
        graph_(ScheduleSpec::parse(run.schedule)
                   .make({.stages = run.stages,
                          .chunks = run.chunks,
                          .micro_batches = run.micro_batches,
                          .batches = run.batches,
                          .replicas = run.replicas})
                   .build()) {
    constexpr int batch_size = 16;
    const models::Dataset& data = loaded(run.data).train;
    const models::Model model = models::make_model(run.model, data.shape, data.classes);
    const int parts = graph_.shape().micro_batches;
    const DnnRun stage_run{.micro_batch_size = batch_size / parts,
                           .optimizer = models::OptimizerSpec::parse(run.optimizer),
                           .seed = 7};
    std::vector<StageModule*> modules;
    std::vector<LocalHead*> lent_heads;
    for (int copy = 0; copy < graph_.shape().copies; ++copy) {
      owned_.push_back(make_dnn_stages(
          model, models::uniform_partition(static_cast<int>(model.layers.size()), run.stages),
          stage_run));
      for (const auto& stage : owned_.back()) modules.push_back(stage.get());
      for (auto& head :
           make_dnn_heads(graph_.learning().local_gradients, owned_.back(), stage_run)) {
        lent_heads.push_back(head.get());
        heads_.push_back(std::move(head));
      }
    }
    feed_ = std::make_unique<DataFeed>(data, model.input, batch_size, parts, 7);
    runner_ = std::make_unique<StageRunner>(
        graph_, modules, *feed_, [](int) { return 0.05; }, Observer{}, lent_heads);
  }

  const TaskGraph& graph() const { return graph_; }
  StageRunner& runner() { return *runner_; }
  /// In the order of the layers.
  std::vector<float> weights() const {
    std::vector<Tensor> weights;
    for (const Stage k : up_to<Stage>(stages_a_copy_)) weights.push_back(runner_->weights(k));
    return joined_weights(weights);
  }
  /// Of each copy.
  std::vector<std::vector<float>> statistics() const {
    std::vector<std::vector<float>> all;
    for (const auto& copy : owned_) all.push_back(joined_statistics(copy));
    return all;
  }
  std::vector<std::vector<double>> head_parameters() const {
    std::vector<std::vector<double>> all;
    for (const auto& head : heads_) {
      if (head != nullptr) all.push_back(head->parameters());
    }
    return all;
  }

 private:
  int stages_a_copy_;
  TaskGraph graph_;
  std::vector<std::vector<std::unique_ptr<DnnStageModule>>> owned_;
  std::vector<std::unique_ptr<LocalHead>> heads_;
  std::unique_ptr<DataFeed> feed_;
  std::unique_ptr<StageRunner> runner_;
};

}  // namespace unlatch::exec
