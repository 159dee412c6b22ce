// ClassifierHead: the auxiliary classifier of DGL on whatever device its network runs.
#pragma once

#include <memory>

#include "exec/local_head.h"

namespace unlatch::exec {

/// All but parameters(), which the device brings to the host.
class ClassifierHead : public LocalHead {
 public:
  /// The network ends in the logits of a loss, and has the optimizer of the head.
  explicit ClassifierHead(std::unique_ptr<StageModule> net);

  Tensor gradient(const Tensor& output, const Tensor& target, double scale,
                  Workspace& workspace) override;
  void learn(const Tensor&, const Tensor&, const Tensor&, Workspace&) override {}
  void update(double rate) override { net_->update(weights_, gradient_, rate); }
  Bytes bytes() const override {
    return {weights_.bytes(), gradient_.bytes(), net_->optimizer_bytes()};
  }
  void visit_state(StateVisitor& visitor) override;

 protected:
  const Tensor& weights() const { return weights_; }

 private:
  std::unique_ptr<StageModule> net_;
  Tensor weights_;
  Tensor gradient_;
};

}  // namespace unlatch::exec
