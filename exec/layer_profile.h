// profile_layers(): what each layer of a model costs on this machine, measured inside whole
// training steps, so that caches are as cold as in a run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/dataset.h"
#include "models/model.h"
#include "models/optimizer.h"

namespace unlatch::exec {

/// One measured time in ns: the median of the samples kept, and the quartiles as their spread.
struct Measurement {
  std::int64_t median_ns = 0;
  std::int64_t lower_ns = 0;  ///< first quartile
  std::int64_t upper_ns = 0;  ///< third quartile
};

/// Leaves out the first `warm_up` samples (caches, pages and clocks settle in them), or none.
Measurement measurement_of(std::span<const std::int64_t> samples_ns, int warm_up);

struct LayerCost {
  std::string name;
  Measurement forward;       ///< keeps the tape; a recompute costs the same
  Measurement forward_only;  ///< keeps nothing, for schedules that recompute
  Measurement backward;      ///< input and weight gradient (no input gradient in the first layer)
  Measurement update;        ///< optimizer step and clearing of the gradient
  std::size_t output_bytes = 0;
  std::size_t tape_bytes = 0;
  std::size_t parameter_bytes = 0;
};

/// All of one micro-batch.
struct LayerProfile {
  std::string model;
  std::string optimizer;
  int micro_batch_size = 0;
  int workers = 1;   ///< that worked at the same time
  int samples = 0;   ///< behind every median
  int left_out = 0;  ///< warm-up steps before them
  std::vector<LayerCost> layers;
  Measurement input;     ///< drawing and normalising the samples: part of stage 0's forward
  Measurement target;    ///< part of the last stage's forward, as the loss is
  Measurement loss;      ///< with its gradient
  Measurement overhead;  ///< of one call of a stage, F or B, beyond its layers
  Measurement step;      ///< everything of one batch in a row
};

struct ProfileOptions {
  int micro_batch_size = 64;
  int samples = 20;  ///< kept
  int warm_up = 3;   ///< steps left out before them; 0 keeps all
  /// Threads doing the same work at once: memory bandwidth, the last-level cache and the clock
  /// rate are shared, so a run of two workers is predicted from a profile of two.
  int workers = 1;
  models::OptimizerSpec optimizer = {};
  std::uint64_t seed = 0;
  std::function<bool()> cancelled = [] { return false; };  ///< asked between steps
};

/// Throws Error for options without sense or data that does not fit the model; RunError when
/// cancelled.
LayerProfile profile_layers(const models::Model& model, const models::Dataset& data,
                            const ProfileOptions& options);

}  // namespace unlatch::exec
