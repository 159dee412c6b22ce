// What goes through the layers of a stage, on any device.
#pragma once

#include <vector>

#include "exec/stage_module.h"
#include "models/dropout.h"

namespace unlatch::exec {

/// Places in the flat arrays of a stage, of which each layer gets its own, and the random numbers
/// of the micro-batch.
struct Flat {
  const float* weights = nullptr;
  float* gradient = nullptr;    ///< B and W only; added to
  float* statistics = nullptr;  ///< null: a replay, which leaves the running statistics alone
  models::Draw draw = {};       ///< F only
};

/// What dropout draws in a forward.
inline models::Draw draw_of(std::uint64_t seed, const StageModule::Pass& pass) {
  return models::draw_of(seed, pass.batch, pass.first_sample);
}

/// A tensor on its way through the layers.
struct Flow {
  Tensor tensor;
  bool ours = false;  ///< nobody else reads it: it may be overwritten
};

/// What one layer keeps for backward; between I and W, what its W needs.
struct Kept {
  std::vector<Tensor> tensors;
  std::vector<Kept> inner;  ///< of the layers inside a residual block

  /// Without memory that is in `counted`, to which it adds its own: neighbours share tensors.
  std::size_t bytes(SeenMemory& counted) const;
  void visit_state(StateVisitor& visitor);
};

/// What the layers of a stage keep.
struct LayerTape : StageModule::Tape {
  Kept kept;
  std::size_t bytes() const override;
  std::size_t bytes_beside(SeenMemory& counted) const override { return kept.bytes(counted); }
  void visit_state(StateVisitor& visitor) override { kept.visit_state(visitor); }
};

}  // namespace unlatch::exec
