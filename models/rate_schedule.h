// RateSchedule: the learning rate as a function of the batch index of the gradient.
#pragma once

#include <string_view>
#include <vector>

#include "models/batch_sizes.h"

namespace unlatch::models {

struct RateSchedule {
  enum class Kind { constant, linear, step, cosine, polynomial } kind = Kind::constant;
  double rate = 0.1;
  std::vector<int> at{};  ///< step: epochs of the run after which the rate is multiplied by factor
  double factor = 0.1;    ///< step
  double power = 1;       ///< polynomial
  double end = 0;         ///< polynomial: share of the rate that is left at the end
  int warm_up = 0;        ///< batches
  double warm_up_epochs = 0;  ///< in place of warm_up
  double start = 0;           ///< share of the rate at the first batch of the warm-up

  /// "constant", "linear" (to 0 at the end), "step:at=60/80,factor=0.1", "cosine" (to 0),
  /// "polynomial:power=2,end=0" ((1 - done)^power from the rate to its share `end`); each also
  /// takes "warmup=500" (batches) or "warmup_epochs=5", and "start=0". `rate` is that at the end of
  /// the warm-up. Throws Error with the closest valid names and keys.
  static RateSchedule parse(std::string_view text, double rate);
  /// Rate of the gradient of one batch of `batches` in all, whose epochs `sizes` knows. It rises in
  /// equal steps from start times the rate to the rate, as torch's LinearLR (Goyal et al. 2017,
  /// arXiv 1706.02677, section 2.2), then linear, cosine and polynomial fall over the batches left.
  double at_batch(int batch, int batches, const BatchSizes& sizes) const;

 private:
  double after_warm_up(double done, int epoch) const;
};

}  // namespace unlatch::models
