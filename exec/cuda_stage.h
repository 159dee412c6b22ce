// CudaStage: consecutive layers of a model on a GPU in float32.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exec/cuda_op.h"
#include "exec/dnn_stage.h"
#include "exec/layer_chain.h"

namespace unlatch::exec::cuda {

/// Page-locked places for losses on their way to the host.
class LossSlots {
 public:
  LossSlots() = default;
  ~LossSlots();
  LossSlots(const LossSlots&) = delete;
  LossSlots& operator=(const LossSlots&) = delete;
  RowLoss* take();
  void give_back(RowLoss* slot) { free_.push_back(slot); }

 private:
  std::vector<RowLoss*> chunks_;
  std::vector<RowLoss*> free_;
};

/// Everything is enqueued on the lane of the task at hand; Workspaces are not used. Follows the
/// contract and the arithmetic of DnnStageModule.
class CudaStage : public StageModule {
 public:
  /// Layers of `range` on an input at `place`, for the rank that holds the stage.
  CudaStage(const models::Model& model, const models::StageRange& range, const Place& place,
            const DnnRun& run, Rank rank, LossSlots& slots);

  Tensor initial_weights() const override;
  Tensor zero_gradient() const override;
  Tensor forward(const Tensor& weights, const Tensor& input, Pass pass, std::unique_ptr<Tape>* tape,
                 Workspace& workspace) override;
  Tensor backward(const Tensor& weights, const Tape& tape, const Tensor& gradient, double scale,
                  bool wants_input_gradient, Tensor& weight_gradient,
                  Workspace& workspace) override;
  Tensor backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient, double scale,
                        bool wants_input_gradient, Workspace& workspace) override;
  void backward_weight(const Tape& tape, Tensor& weight_gradient, Workspace& workspace) override;
  /// Waits for the device.
  Loss loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
            Workspace& workspace) override;
  void report_loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
                   Workspace& workspace, std::function<void(const Loss&)> report) override;
  Number number() const override { return Number::float32; }
  std::size_t optimizer_bytes() const override { return velocity_.bytes(); }
  Tensor received(Tensor tensor) override { return device().brought(std::move(tensor)); }
  Tensor copy_of(const Tensor& weights) override { return device().copy_of(weights); }
  void all_reduce(std::span<Tensor* const> tensors, double factor) override;
  Tensor predicted(const Tensor& weights, int updates, double rate) override;
  void update(Tensor& weights, Tensor& gradient, double rate) override;

  const Place& output() const { return chain_.output(); }
  std::vector<float> statistics() const;

 private:
  Device& device() const { return *chain_.input().device; }
  Flow scaled(const Tensor& gradient, double scale) const;
  /// Enqueues the loss and its way to the host.
  RowLoss* enqueue_loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient);
  Loss loss_in(RowLoss* slot);

  LayerChain<Op> chain_;
  Rank rank_;
  LossSlots& slots_;
  models::OptimizerSpec optimizer_;
  std::vector<float> initial_;
  Tensor statistics_;
  Tensor velocity_;  ///< empty for plain SGD
};

/// The stages of one copy of the model. Throws Error like make_dnn_stages().
std::vector<std::unique_ptr<CudaStage>> make_cuda_stages(const models::Model& model,
                                                         std::span<const models::StageRange> ranges,
                                                         const DnnRun& run, Device& device,
                                                         std::span<const Rank> ranks,
                                                         LossSlots& slots);

}  // namespace unlatch::exec::cuda
