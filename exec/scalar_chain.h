// ScalarChain: the smallest network there is, h_{j+1} = act(w_j h_j) in double precision with the
// loss 0.5 (h_last - y)^2, so that a schedule's mathematics can be checked to the last digits.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/host_parameter_math.h"
#include "exec/stage_module.h"

namespace unlatch::exec {

enum class Activation { tanh, identity };

/// One stage: consecutive weights of the chain. Tensors hold doubles; a micro-batch is one sample.
class ScalarChainModule : public StageModule {
 public:
  ScalarChainModule(std::vector<double> weights, Activation activation,
                    const models::OptimizerSpec& optimizer);

  Tensor initial_weights() const override;
  Tensor zero_gradient() const override;
  void visit_state(StateVisitor& visitor) override;
  std::unique_ptr<Tape> empty_tape() const override;
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
  std::size_t optimizer_bytes() const override { return optimizer_.bytes(); }
  Tensor copy_of(const Tensor& weights) override;
  void all_reduce(std::span<Tensor* const> tensors, double factor) override;
  ParameterMath& math() override { return math_; }
  Tensor predicted(const Tensor& weights, int updates, double rate) override;
  void update(Tensor& weights, Tensor& gradient, double rate) override;

 private:
  std::vector<double> initial_;
  Activation activation_;
  models::Optimizer<double> optimizer_;
  HostParameterMath<double> math_;
  mutable BufferPool pool_;
};

/// The stages of a chain in order: sizes[k] weights on stage k.
std::vector<std::unique_ptr<StageModule>> scalar_chain_stages(
    std::span<const double> weights, std::span<const int> sizes, Activation activation,
    const models::OptimizerSpec& optimizer);

/// One input and one target a micro-batch. Throws Error when a micro-batch past the end is asked
/// for or the lists differ in length.
class ScalarFeed : public Feed {
 public:
  ScalarFeed(std::vector<double> x, std::vector<double> y);
  Tensor input(MicroBatch i) override;
  Tensor target(MicroBatch i) override;
  Share share(MicroBatch) const override { return {}; }

 private:
  Tensor at(const std::vector<double>& values, MicroBatch i);

  std::vector<double> x_;
  std::vector<double> y_;
  BufferPool pool_;
};

}  // namespace unlatch::exec
