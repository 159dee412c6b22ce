// Batch gradient descent on a scalar chain, written out, and shapes of schedules that do the same.
#pragma once

#include <cmath>
#include <vector>

#include "exec/numerics.h"
#include "schedules/registry.h"
#include "tests/support/variants.h"

namespace unlatch::exec {

/// Of so many micro-batches from the first on, whose loss is their mean.
inline std::vector<double> mean_gradient(const std::vector<double>& weights,
                                         const ChainProblem& problem, int first, int count) {
  std::vector<double> gradient(weights.size());
  for (int i = first; i < first + count; ++i) {
    std::vector<double> h{problem.x[static_cast<std::size_t>(i)]};
    for (const double weight : weights) h.push_back(std::tanh(weight * h.back()));
    double error = h.back() - problem.y[static_cast<std::size_t>(i)];
    for (std::size_t j = weights.size(); j-- > 0;) {
      const double slope = error * (1 - h[j + 1] * h[j + 1]);
      gradient[j] += slope * h[j] / count;
      error = slope * weights[j];
    }
  }
  return gradient;
}

/// A shape of four stages a copy that the method runs; no micro-batches if there is none.
inline Shape shape_for(const ScheduleSpec& spec, int replicas) {
  Shape shape{.stages = 4, .batches = 5, .replicas = replicas};
  shape.chunks = spec.pipeline().chunks.usual;
  shape.micro_batches = testing_support::parts_that_run(spec, shape, {4, 8});
  return shape;
}

}  // namespace unlatch::exec
