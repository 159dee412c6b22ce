// DnnStageModule: consecutive layers of a model as oneDNN primitives in float32.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/stage_module.h"
#include "models/model.h"
#include "models/partition.h"

namespace unlatch::exec {

struct Place;

/// What the stages of one run have in common.
struct DnnRun {
  int micro_batch_size = 1;
  models::OptimizerSpec optimizer = {};
  std::uint64_t seed = 0;
  std::vector<int> other_sizes = {};  ///< of micro-batches, on the CPU
};

/// Throws Error unless the stages cover the model and a micro-batch holds samples.
void require_stages(const models::Model& model, std::span<const models::StageRange> ranges,
                    const DnnRun& run);

/// A stage hands its output over in the layout its last layer prefers and the next stage takes it
/// like that, so that the cut changes no bit of the result. Every call may come from any thread;
/// updates of one stage, and its Pass::normal forwards, must not overlap each other.
class DnnStageModule : public StageModule {
 public:
  ~DnnStageModule() override;

  Tensor initial_weights() const override;
  Tensor zero_gradient() const override;
  std::size_t tied_bytes() const override;
  Tensor forward(const Tensor& weights, const Tensor& input, Pass pass, std::unique_ptr<Tape>* tape,
                 Workspace& workspace) override;
  Tensor backward(const Tensor& weights, const Tape& tape, const Tensor& gradient, double scale,
                  bool wants_input_gradient, Tensor& weight_gradient,
                  Workspace& workspace) override;
  Tensor backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient, double scale,
                        bool wants_input_gradient, Workspace& workspace) override;
  void backward_weight(const Tape& tape, Tensor& weight_gradient, Workspace& workspace) override;
  Loss loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
            Workspace& workspace) override;
  std::size_t optimizer_bytes() const override;
  Tensor copy_of(const Tensor& weights) override;
  void all_reduce(std::span<Tensor* const> tensors, double factor) override;
  ParameterMath& math() override;
  Tensor predicted(const Tensor& weights, int updates, double rate) override;
  void update(Tensor& weights, Tensor& gradient, double rate) override;
  void visit_state(StateVisitor& visitor) override;
  std::unique_ptr<Tape> empty_tape() const override;

  /// Running mean and variance of the batch norms, as models::statistic_count() counts them. Not
  /// while a forward runs.
  std::span<float> statistics();
  std::size_t output_bytes() const;  ///< of the tensor handed to the next stage
  std::size_t parameters() const;
  /// Where and in which layout that tensor lies, of a micro-batch of DnnRun::micro_batch_size.
  const Place& output() const;

 private:
  struct Parts;
  explicit DnnStageModule(std::unique_ptr<Parts> parts);
  /// Layers first..last of a model, on inputs that lie like that, one a size of micro-batches.
  static std::unique_ptr<DnnStageModule> make(const models::Model& model,
                                              const models::StageRange& range,
                                              std::span<const Place> inputs, const DnnRun& run);
  std::vector<Place> outputs() const;
  friend std::unique_ptr<DnnStageModule> make_dnn_stage_on(const Place& input,
                                                           const models::Model& model,
                                                           const DnnRun& run);
  friend std::vector<std::unique_ptr<DnnStageModule>> make_dnn_stages(
      const models::Model& model, std::span<const models::StageRange> ranges, const DnnRun& run);

  std::unique_ptr<Parts> parts_;
};

/// All stages of a partition in order. Inputs of stage 0 are plain [samples, channels, height,
/// width] floats, targets int32 labels. Creates every primitive (about 1 ms each).
std::vector<std::unique_ptr<DnnStageModule>> make_dnn_stages(
    const models::Model& model, std::span<const models::StageRange> ranges, const DnnRun& run);

/// A whole model as one stage on the output of another, whose samples, shape and layout are those
/// of `input`.
std::unique_ptr<DnnStageModule> make_dnn_stage_on(const Place& input, const models::Model& model,
                                                  const DnnRun& run);

}  // namespace unlatch::exec
