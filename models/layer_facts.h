// LayerFacts: what a layer does, moves, keeps and hands on, whatever kind of layer it is; what a
// cost model of a device needs, and no more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/partition.h"

namespace unlatch::models {

/// Operations and bytes are of one sample (of a transformer: one sequence).
struct LayerFacts {
  std::string name;
  double forward_flops = 0;
  double input_gradient_flops = 0;
  double weight_gradient_flops = 0;
  double moved_bytes = 0;                  ///< activations that F reads and writes; I as many
  double weight_gradient_moved_bytes = 0;  ///< activations and gradients that W reads
  double output_bytes = 0;                 ///< what goes to the next stage, and back as a gradient
  double tape_bytes = 0;
  double shared_tape_bytes = 0;  ///< of these, what the next layer on the same stage keeps anyway
  double weight_grad_activation_bytes = 0;
  std::int64_t parameters = 0;
  std::int64_t read_parameters = 0;  ///< that F, I and W read or write, of a whole piece
  bool tied =
      false;  ///< its parameters are the first layer's; a copy where that is on another stage
};

struct ModelFacts {
  std::string name;
  double input_bytes = 0;  ///< one sample
  /// The first computes no input gradient.
  std::vector<LayerFacts> layers;

  /// Tied ones count once.
  std::int64_t parameters() const;
  /// Tape of one sample on a stage.
  double tape_bytes(const StageRange& stage) const;
};

/// `element_bytes`: of an activation.
ModelFacts facts_of(const Model& model, double element_bytes);

/// What a CPU core computes while it moves a byte: of convolutional networks on one, the split by
/// this sum comes closest to that by measured times (at 5 to 10; at 0 it is 7 % of a step off).
inline constexpr double flops_per_moved_byte = 8;

/// Work of one sample, a layer, by which a model is split where nobody measured it: FLOPs, and
/// bytes moved in FLOPs; of F, I and W together, or of F alone.
std::vector<double> training_work(const ModelFacts& facts);
std::vector<double> forward_work(const ModelFacts& facts);

}  // namespace unlatch::models
