// LocalHead: what gives a stage the gradient of its output without the next stage's backward.
#pragma once

#include <vector>

#include "exec/stage_module.h"

namespace unlatch::exec {

/// An auxiliary head with a loss of its own (DGL), a gradient synthesiser (DNI) or a fixed random
/// map of the output error (DFA). Used by one stage at a time.
class LocalHead {
 public:
  virtual ~LocalHead() = default;
  /// Gradient of the stage's output, from that output; for feedback from the gradient of the last
  /// stage's. A head with a loss adds to the gradient of its own parameters; the loss counts
  /// `scale` times. The target is empty where LocalGradients::see_targets() says no.
  virtual Tensor gradient(const Tensor& from, const Tensor& target, double scale,
                          Workspace& workspace) = 0;
  /// A synthesiser steps towards the gradient that the next stage found for an earlier output.
  virtual void learn(const Tensor& output, const Tensor& target, const Tensor& gradient,
                     Workspace& workspace) = 0;
  /// A head with a loss takes its optimizer step, together with its stage.
  virtual void update(double rate) = 0;
  virtual std::vector<double> parameters() const = 0;
  /// What it keeps; `optimizer` is the state of its own.
  struct Bytes {
    std::size_t weights = 0;
    std::size_t gradient = 0;
    std::size_t optimizer = 0;
  };
  virtual Bytes bytes() const = 0;
  /// What it keeps from task to task. Throws RunError on a device where that cannot be visited.
  virtual void visit_state(StateVisitor&) {
    throw RunError("the state of a local head on this device cannot be saved or restored");
  }
};

}  // namespace unlatch::exec
