// A real network with everything that trains it by some schedule for a few batches.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/data_feed.h"
#include "exec/dnn_stage.h"
#include "exec/local_head.h"
#include "exec/stage_runner.h"
#include "schedules/schedule.h"

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
  StatisticUpdates statistics = StatisticUpdates::forward;
  std::string optimizer = "momentum:momentum=0.9";
  int batch_size = 16;
  std::function<double(int batch)> rate = [](int) { return 0.05; };
  /// What becomes of the schedule before its graph is built; empty: nothing.
  std::function<Schedule(const Schedule&)> arranged = {};
  std::optional<models::GradientClip> clip = {};
};

/// Of the initial weights and of the order of the samples.
inline constexpr std::uint64_t network_seed = 7;

/// Loads it once: of the program, or "text": a small one, in short windows.
const models::DataSplit& loaded_data(const std::string& specification);

/// Updates are joint where stages hold copies of one table.
class Network {
 public:
  explicit Network(const NetworkRun& run);

  const TaskGraph& graph() const { return graph_; }
  StageRunner& runner() { return *runner_; }
  /// In the order of the layers.
  std::vector<float> weights(int copy = 0) const;
  /// By micro-batch; 0 where none was told.
  const std::vector<double>& losses() const { return losses_; }
  /// Of each copy.
  std::vector<std::vector<float>> statistics() const;
  std::vector<std::vector<double>> head_parameters() const;

 private:
  int stages_a_copy_;
  models::Model model_;
  TaskGraph graph_;
  std::vector<std::vector<std::unique_ptr<DnnStageModule>>> owned_;
  std::vector<std::unique_ptr<LocalHead>> heads_;
  std::unique_ptr<DataFeed> feed_;
  std::vector<double> losses_;
  std::unique_ptr<StageRunner> runner_;
};

/// In the order of the layers.
struct TrainedNetwork {
  std::vector<float> weights;
  std::vector<float> statistics;  ///< of the first copy
  std::vector<double> losses;     ///< by micro-batch
};

/// Through the executor on the CPU.
TrainedNetwork train_network(const NetworkRun& run);
inline std::vector<float> train(const NetworkRun& run) { return train_network(run).weights; }

/// Of the vectors' lengths.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace unlatch::exec
