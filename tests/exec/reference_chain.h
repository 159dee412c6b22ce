// The scalar chain as plain loops over doubles, and its weights cut into stages: what straight-line
// references of update rules are written with.
#pragma once

#include <cmath>
#include <vector>

namespace unlatch::exec {

using ChainWeights = std::vector<std::vector<double>>;  ///< by stage

struct ChainGradient {
  ChainWeights of_weights;
  double loss = 0;
};

/// Of 0.5 (h - y)^2 through tanh(w h), w in the forward and in the input-gradient path given apart;
/// `shrink` on gradients that arrive at stages below the last.
inline ChainGradient differentiate(const ChainWeights& forward, const ChainWeights& backward,
                                   double x, double y, double loss_scale, double shrink) {
  ChainWeights inputs = forward, outputs = forward;
  double h = x;
  for (std::size_t k = 0; k < forward.size(); ++k) {
    for (std::size_t j = 0; j < forward[k].size(); ++j) {
      inputs[k][j] = h;
      h = outputs[k][j] = std::tanh(forward[k][j] * h);
    }
  }
  ChainGradient result{forward, 0.5 * (h - y) * (h - y)};
  double g = (h - y) * loss_scale;
  for (std::size_t k = forward.size(); k-- > 0;) {
    if (k + 1 < forward.size()) g *= shrink;
    for (std::size_t j = forward[k].size(); j-- > 0;) {
      const double slope = 1 - outputs[k][j] * outputs[k][j];
      result.of_weights[k][j] = g * slope * inputs[k][j];
      g = g * slope * backward[k][j];
    }
  }
  return result;
}

/// Weights cut into stages of nearly equal size, larger first.
inline ChainWeights cut(const std::vector<double>& weights, int stages) {
  ChainWeights result;
  auto next = weights.begin();
  for (int k = 0; k < stages; ++k) {
    const int size = static_cast<int>(weights.size()) / stages +
                     (k < static_cast<int>(weights.size()) % stages ? 1 : 0);
    result.emplace_back(next, next + size);
    next += size;
  }
  return result;
}

}  // namespace unlatch::exec
