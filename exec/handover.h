// What a cut costs the layers beside it: their tensors come from another core, or have been there.
#pragma once

#include <memory>
#include <vector>

#include "exec/layer_profile.h"

namespace unlatch::exec {

/// Nanoseconds that a layer takes longer than inside a stage. Reading what another core wrote is
/// half of it; the other half is writing where that core has read since, which costs a question
/// for every cache line, and most where the two cores share no cache.
struct HandoverCost {
  double forward_in = 0;    ///< F, its input coming from the stage before
  double forward_out = 0;   ///< F, its output going to the next stage
  double backward_in = 0;   ///< B, its output's gradient coming from there
  double backward_out = 0;  ///< B, its input's gradient going to the stage before
};

/// Measures each layer in arrangements of the model on two threads, one of which works at a time:
/// whole models in turn, and cut behind every third layer, from the first, second or third on. As
/// LayerProfiler it does so in bursts; of the options it takes the size, the samples (of each
/// arrangement), the time (of all together), burst, warm-up, seed and cancelled. The data must
/// outlive it.
class HandoverProfiler {
 public:
  HandoverProfiler(const models::Model& model, const models::Dataset& data,
                   const ProfileOptions& options);
  ~HandoverProfiler();

  bool wants_more() const;
  /// One burst. Throws RunError when cancelled.
  void measure();
  /// By layer, of all bursts until now; 0 where a layer took no longer.
  std::vector<HandoverCost> costs() const;

 private:
  class Arrangement;
  ProfileOptions options_;
  std::vector<std::unique_ptr<Arrangement>> arrangements_;
  int samples_ = 0;
  std::chrono::nanoseconds measured_{0};
};

}  // namespace unlatch::exec
