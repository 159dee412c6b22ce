// A small network trained through the executor on the CPU, and what is left of it.
#pragma once

#include <string>
#include <vector>

#include "exec/stage_runner.h"

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
};

/// In the order of the layers.
struct TrainedNetwork {
  std::vector<float> weights;
  std::vector<float> statistics;  ///< of the first copy
};

/// On batches of 16 samples.
TrainedNetwork train_network(const NetworkRun& run);
inline std::vector<float> train(const NetworkRun& run) { return train_network(run).weights; }

/// Of the vectors' lengths.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace unlatch::exec
