// StageState: what lives between the tasks of one stage.
#pragma once

#include <vector>

#include "exec/counted.h"
#include "exec/local_head.h"

namespace unlatch::exec {

struct StageState {
  StageModule* module = nullptr;
  LocalHead* head = nullptr;  ///< where the gradient of its output is its own affair
  Tensor weights;
  Tensor gradient;             ///< summed since the last update
  int version = 0;             ///< of the weights
  CountedVersions stash;       ///< older versions that a task will read
  CountedTensors activations;  ///< h_k(i) on its way into the stage
  std::vector<int> takers;     ///< of each; empty where one takes it
  CountedTensors errors;       ///< g_{k+1}(i) on its way into the stage
  CountedTensors outputs;      ///< h_{k+1}(i) kept for the head
  CountedTensors inputs;       ///< h_k(i) kept for R
  CountedTapes tapes;
};

}  // namespace unlatch::exec
