// The local heads of stages on a GPU: auxiliary classifiers (DGL), gradient synthesisers (DNI) and
// fixed random feedback (DFA).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/cuda_stage.h"
#include "exec/local_head.h"
#include "schedules/learning.h"

namespace unlatch::exec::cuda {

struct CudaHead {
  std::unique_ptr<LocalHead> head;           ///< null for the last stage
  std::function<int()> steps_left_out = {};  ///< because the gradient was not finite; after the run
};

/// The heads of one copy of the model as make_dnn_heads() has them, each on the rank of its stage.
/// Parameters are float32, activations and gradients in the precision of the run.
std::vector<CudaHead> make_cuda_heads(const LocalGradients& local,
                                      std::span<const std::unique_ptr<CudaStage>> stages,
                                      const DnnRun& run, double loss_scale,
                                      std::span<const Rank> ranks, const LossSlots& slots);

}  // namespace unlatch::exec::cuda
