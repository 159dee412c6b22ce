// Profile checks: measurements that contradict each other, each with its place.
#pragma once

#include <vector>

#include "exec/layer_profile.h"
#include "models/json_value.h"

namespace unlatch::tools {

/// Of one profile, whatever it was measured on; `sample_bytes`: one input sample. Throws Error for
/// an optimizer with another number of slots, for tapes and activations kept for W beyond 1000
/// times what goes into the layer, out of it and what it holds as parameters, and for a B that
/// require_halves_fit() refuses.
void require_consistent(const models::JsonValue& place, const exec::LayerProfile& profile,
                        std::int64_t sample_bytes);

/// The whole step was timed round the parts of it, sample by sample, so that no part can be the
/// longer one; I, W and F without tape are of other steps.
void require_times_of_cpu(const models::JsonValue& place, const exec::LayerProfile& profile);

/// All profiles of a file are of one network and optimizer, each of another batch size or number of
/// workers. Parameters are the same in all; outputs of one batch size as well, and of one sample
/// they differ at most by the padding of channels, 16 times.
void require_fits_others(const models::JsonValue& place, const exec::LayerProfile& profile,
                         const std::vector<exec::LayerProfile>& others);

/// B does what I and W do. They were measured in different steps, so only of 5 samples or more, and
/// only where the quartiles are 50 times apart and 10 us: three of four steps cannot all have been
/// interrupted. (Measured ratios reach 9: apart, I and W read their activations twice.)
void require_halves_fit(const models::JsonValue& place, const exec::Measurement& backward,
                        const exec::Measurement& input_gradient,
                        const exec::Measurement& weight_gradient, int samples);

}  // namespace unlatch::tools
