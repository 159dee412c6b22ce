// Delays along the stages, as the promises of stale methods count them.
#pragma once

#include <algorithm>
#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// hop * (K-1-k) of each stage, at most `limit`.
inline std::vector<int> delays(const Shape& shape, int hop, int limit) {
  std::vector<int> result;
  for (int k = 0; k < shape.stages; ++k) {
    result.push_back(std::min(hop * (shape.stages - 1 - k), limit));
  }
  return result;
}

/// Each value plus one.
inline std::vector<int> plus_one(std::vector<int> values) {
  for (int& value : values) ++value;
  return values;
}

}  // namespace unlatch
