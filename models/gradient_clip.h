// GradientClip: gradients scaled down to a largest norm.
#pragma once

#include <cmath>
#include <string_view>

#include "models/host_device.h"

namespace unlatch::models {

/// g <- g min(1, most / |g|), before decay and momentum. |g| is the norm of one batch's gradient
/// over all parameters of the model (Pascanu et al., ICML 2013, algorithm 1, as
/// torch.nn.utils.clip_grad_norm_, without its 1e-6), or over those of the stage alone.
struct GradientClip {
  double most = 0;
  bool of_stage = false;

  /// "1.5" or "1.5,scope=stage"; scope=model is the default. Throws Error.
  static GradientClip parse(std::string_view text);
};

/// What a gradient is multiplied by, from the sum of its squares. No number where that sum is not
/// finite: then no step is taken that only parts of the gradient are to blame for.
UNLATCH_HOST_DEVICE inline double clip_factor(double most, double squares) {
  const double norm = std::sqrt(squares);
  if (norm <= most) return 1;
  return most / norm + 0 * norm;
}

}  // namespace unlatch::models
