// The layers of transformers in the second, plain implementation.
#pragma once

#include "tests/exec/reference_network.h"

namespace unlatch::testing {

/// Sequences [samples, tokens, 1, features] (GELU takes any tensor) and flat weights.
struct SequenceCase {
  models::SampleShape in;
  int samples;
  const double* w;
  const Numbers& x;
};

Reference reference_of(const models::Embedding& layer, const SequenceCase& given);
Reference reference_of(const models::LayerNorm& layer, const SequenceCase& given);
Reference reference_of(const models::Gelu& layer, const SequenceCase& given);
Reference reference_of(const models::CausalSelfAttention& layer, const SequenceCase& given);

}  // namespace unlatch::testing
