// LayerBytesRunner: what each layer hands on and keeps on a device, found by one micro-batch
// through a model whose every layer is a stage.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "exec/stage_module.h"
#include "exec/task_runner.h"

namespace unlatch::exec {

/// As LayerCost has them.
struct LayerBytes {
  std::size_t output = 0;
  std::size_t tape = 0;  ///< without what a later layer keeps too
  std::size_t for_weight_gradient = 0;
  std::size_t parameters = 0;
};

/// Runs F of all stages, I of all and W of all, in this order; updates do nothing.
class LayerBytesRunner : public TaskRunner {
 public:
  /// Everything referred to must outlive it.
  LayerBytesRunner(std::vector<StageModule*> modules, Feed& feed);

  void run(const Task& task, Workspace& workspace) override;
  /// By layer, after the run.
  const std::vector<LayerBytes>& bytes() const& { return bytes_; }

 private:
  void forward(const Task& task, Workspace& workspace);
  void backward_input(const Task& task, Workspace& workspace);
  void count_tapes();
  bool is_last(std::size_t layer) const { return layer + 1 == modules_.size(); }

  std::vector<StageModule*> modules_;
  Feed& feed_;
  std::vector<Tensor> weights_;
  std::vector<std::unique_ptr<StageModule::Tape>> tapes_;
  Tensor flow_;  ///< the output of the newest F, or the gradient of the newest I
  SeenMemory counted_;
  std::vector<LayerBytes> bytes_;
};

}  // namespace unlatch::exec
