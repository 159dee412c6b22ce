// CudaStage: consecutive layers of a model on a GPU, weights in float32.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exec/cuda_op.h"
#include "exec/cuda_optimizer.h"
#include "exec/cuda_parameter_math.h"
#include "exec/dnn_stage.h"
#include "exec/layer_chain.h"

namespace unlatch::exec::cuda {

/// Page-locked places for losses on their way to the host, one a task that is not over.
class LossSlots {
 public:
  explicit LossSlots(const StreamOrder& order);
  ~LossSlots();
  LossSlots(const LossSlots&) = delete;
  LossSlots& operator=(const LossSlots&) = delete;
  RowLoss* of(TaskId task) const { return slots_ + order_.place(task); }

 private:
  const StreamOrder& order_;
  RowLoss* slots_ = nullptr;
};

/// Steps left out because the gradient was not finite, by the words of a GradientCheck on the
/// device; 0 without any. After the run.
int left_out_in(const Device& device, const Tensor& check);

/// Everything is enqueued on the lane of the task at hand; Workspaces are not used. Follows the
/// contract and the arithmetic of DnnStageModule.
class CudaStage : public StageModule {
 public:
  /// Layers of `range` on an input at `place`, for the rank that holds the stage.
  CudaStage(const models::Model& model, const models::StageRange& range, const Place& place,
            const DnnRun& run, double loss_scale, Rank rank, const LossSlots& slots);

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
  std::size_t optimizer_bytes() const override { return optimizer_.bytes(); }
  Tensor received(Tensor tensor) override { return device().brought(std::move(tensor)); }
  Tensor copy_of(const Tensor& weights) override { return device().copy_of(weights); }
  void all_reduce(std::span<Tensor* const> tensors, double factor) override;
  ParameterMath& math() override { return math_; }
  Tensor predicted(const Tensor& weights, int updates, double rate) override;
  void update(Tensor& weights, Tensor& gradient, double rate) override;

  const Place& output() const { return chain_.output(); }
  std::vector<float> statistics() const;
  /// Updates that were left out because the gradient was not finite. After the run.
  int updates_left_out() const;

 private:
  Device& device() const { return *chain_.input().device; }
  Flow scaled(const Tensor& gradient, double scale) const;
  /// Enqueues the loss and its way to the host.
  RowLoss* enqueue_loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient);
  Loss loss_in(const RowLoss& sum) const;

  LayerChain<Op> chain_;
  Rank rank_;
  const LossSlots& slots_;
  std::uint64_t seed_;
  double loss_scale_;
  std::vector<float> initial_;
  Tensor statistics_;
  CudaOptimizer optimizer_;
  Tensor check_;  ///< empty where the loss is not scaled
  CudaParameterMath math_;
};

/// The stages of one copy of the model. Throws Error like make_dnn_stages().
std::vector<std::unique_ptr<CudaStage>> make_cuda_stages(
    const models::Model& model, std::span<const models::StageRange> ranges, const DnnRun& run,
    double loss_scale, Device& device, std::span<const Rank> ranks, const LossSlots& slots);

}  // namespace unlatch::exec::cuda
