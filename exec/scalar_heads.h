// The local heads of the scalar chain: one weight with a loss (DGL), a linear synthesiser (DNI), a
// fixed random weight (DFA).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "exec/local_head.h"
#include "models/optimizer.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// Auxiliary prediction a h with the loss 0.5 (a h - y)^2; a starts at 1.
class ScalarHead : public LocalHead {
 public:
  explicit ScalarHead(const models::OptimizerSpec& optimizer) : optimizer_(optimizer, 1) {}

  Tensor gradient(const Tensor& output, const Tensor& target, double scale,
                  Workspace& workspace) override;
  void learn(const Tensor&, const Tensor&, const Tensor&, Workspace&) override {}
  void update(double rate) override;
  std::vector<double> parameters() const override { return {weight_[0]}; }
  Bytes bytes() const override { return {sizeof weight_, sizeof sum_, optimizer_.bytes()}; }
  void visit_state(StateVisitor& visitor) override;

 private:
  std::array<double, 1> weight_{1.0};
  std::array<double, 1> sum_{0.0};
  models::Optimizer<double> optimizer_;
  BufferPool pool_;
};

/// Predicts the gradient p h + q, with a label y also + r y; all start at 0. Steps by plain SGD on
/// (prediction - gradient)^2.
class ScalarSynthesiser : public LocalHead {
 public:
  ScalarSynthesiser(bool conditional, double rate) : conditional_(conditional), rate_(rate) {}

  Tensor gradient(const Tensor& output, const Tensor& target, double scale,
                  Workspace& workspace) override;
  void learn(const Tensor& output, const Tensor& target, const Tensor& gradient,
             Workspace& workspace) override;
  void update(double) override {}
  std::vector<double> parameters() const override;
  Bytes bytes() const override { return {.weights = parameters().size() * sizeof(double)}; }
  void visit_state(StateVisitor& visitor) override;

 private:
  double predict(double h, double y) const;
  double label_in(const Tensor& target) const;

  bool conditional_;
  double rate_;
  double p_ = 0, q_ = 0, r_ = 0;
  BufferPool pool_;
};

/// The error times a fixed b.
class ScalarFeedback : public LocalHead {
 public:
  explicit ScalarFeedback(double b) : b_(b) {}

  Tensor gradient(const Tensor& error, const Tensor& target, double scale,
                  Workspace& workspace) override;
  void learn(const Tensor&, const Tensor&, const Tensor&, Workspace&) override {}
  void update(double) override {}
  std::vector<double> parameters() const override { return {b_}; }
  Bytes bytes() const override { return {.weights = sizeof b_}; }
  void visit_state(StateVisitor&) override {}

 private:
  double b_;
  BufferPool pool_;
};

/// One head a stage, as the graph's local gradients want them; null for the last stage of a copy.
/// Empty where gradients come from the next stage. The b of feedback are drawn uniformly from
/// [-1, 1), the same in every run.
std::vector<std::unique_ptr<LocalHead>> scalar_heads(const TaskGraph& graph,
                                                     const models::OptimizerSpec& optimizer);

}  // namespace unlatch::exec
