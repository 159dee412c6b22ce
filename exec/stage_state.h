// StageState: what lives between the tasks of one stage.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "exec/local_head.h"

namespace unlatch::exec {

struct StageState {
  StageModule* module = nullptr;
  LocalHead* head = nullptr;  ///< where the gradient of its output is its own affair
  Tensor weights;
  Tensor gradient;                        ///< summed since the last update
  int version = 0;                        ///< of the weights
  std::unordered_map<int, Tensor> stash;  ///< older versions that a task will read
  std::vector<Tensor> activations;        ///< h_k(i) on its way into the stage
  std::vector<int> takers;                ///< of each; empty where one takes it
  std::vector<Tensor> errors;             ///< g_{k+1}(i) on its way into the stage
  std::vector<Tensor> outputs;            ///< h_{k+1}(i) kept for the head
  std::vector<Tensor> inputs;             ///< h_k(i) kept for R
  std::vector<std::unique_ptr<StageModule::Tape>> tapes;
};

}  // namespace unlatch::exec
