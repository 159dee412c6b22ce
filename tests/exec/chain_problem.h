// A scalar chain for any graph.
#pragma once

#include "exec/numerics.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// One weight a stage, each another, and data for all micro-batches.
inline ChainProblem problem_of(const TaskGraph& graph) {
  ChainProblem problem;
  for (int k = 0; k < graph.shape().stages_a_copy(); ++k) {
    problem.weights.push_back(0.9 - 0.17 * k);
  }
  fill_with_golden_data(problem, graph.shape().all_micro_batches());
  return problem;
}

}  // namespace unlatch::exec
