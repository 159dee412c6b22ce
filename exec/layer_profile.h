// LayerProfiler: what each layer of a model costs on this machine, measured inside whole training
// steps, so that caches are as cold as in a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/dataset.h"
#include "models/model.h"
#include "models/optimizer.h"

namespace unlatch::exec {

/// One measured time in ns. Predictions use the mean: a core whose speed changes from one second to
/// the next (a neighbour on its other hardware thread) has two typical times, and the median is
/// one of them.
struct Measurement {
  std::int64_t mean_ns = 0;  ///< without the lowest and the highest tenth of the samples
  std::int64_t median_ns = 0;
  std::int64_t lower_ns = 0;  ///< first quartile
  std::int64_t upper_ns = 0;  ///< third quartile
};

/// `samples_ns` must not be empty.
Measurement measurement_of(std::vector<std::int64_t> samples_ns);

struct LayerCost {
  std::string name;
  Measurement forward;         ///< keeps the tape; a recompute costs the same
  Measurement forward_only;    ///< keeps nothing, for schedules that recompute
  Measurement backward;        ///< input and weight gradient (no input gradient in the first layer)
  Measurement input_gradient;  ///< the first half alone, one stage's layers after each other
  Measurement weight_gradient;  ///< and the second, after the first half of all layers
  Measurement update;           ///< optimizer step and clearing of the gradient
  std::size_t output_bytes = 0;
  /// What backward needs; a tensor that two layers need belongs to the later one, its reader.
  std::size_t tape_bytes = 0;
  std::size_t weight_grad_activation_bytes = 0;  ///< the same once the first half is done
  std::size_t parameter_bytes = 0;
  bool tied = false;  ///< measured with weights of its own; on the embedding's stage it has none
};

/// All of one micro-batch.
struct LayerProfile {
  std::string model;
  std::string optimizer;
  int optimizer_slots = 0;  ///< numbers of its state for each parameter
  int micro_batch_size = 0;
  int workers = 1;   ///< that worked at the same time
  int samples = 0;   ///< behind every measurement
  int left_out = 0;  ///< warm-up steps beside them
  std::vector<LayerCost> layers;
  Measurement input;     ///< drawing and normalising the samples: part of stage 0's forward
  Measurement target;    ///< part of the last stage's forward, as the loss is
  Measurement loss;      ///< with its gradient
  Measurement overhead;  ///< of one call of a stage, F or B, beyond its layers
  Measurement step;      ///< everything of one batch in a row
};

struct ProfileOptions {
  int micro_batch_size = 64;
  int samples = 20;                          ///< at least
  std::chrono::nanoseconds least_time = {};  ///< goes on until the samples add up to this
  int burst = 10;                            ///< samples of one measure()
  int warm_up = 2;                           ///< steps left out at the start of each burst
  /// Threads doing the same work at once: memory bandwidth, the last-level cache and the clock
  /// rate are shared, so a run of two workers is predicted from a profile of two. With 1, two
  /// threads take turns, as the stages of a schedule do of which one works at a time.
  int workers = 1;
  models::OptimizerSpec optimizer = {};
  std::uint64_t seed = 0;
  std::function<bool()> cancelled = [] { return false; };  ///< asked between steps
};

/// Measures in bursts, so that the bursts of several profilers can take turns: a machine's speed
/// drifts, and what will be compared must have seen the same weather.
class LayerProfiler {
 public:
  /// Throws Error for options without sense or data that does not fit the model.
  LayerProfiler(const models::Model& model, const models::Dataset& data, ProfileOptions options);
  ~LayerProfiler();

  bool wants_more() const;
  /// One burst. Throws RunError when cancelled.
  void measure();
  /// Of all bursts until now.
  LayerProfile profile() const;

 private:
  class Bursts;
  std::unique_ptr<Bursts> bursts_;
};

/// Measures until the profiler wants no more.
LayerProfile profile_layers(const models::Model& model, const models::Dataset& data,
                            const ProfileOptions& options);

}  // namespace unlatch::exec
