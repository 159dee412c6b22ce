// What FDG and ADL share: the steps of the stages, their keys, and what a stage keeps.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedules/delays.h"
#include "schedules/error.h"
#include "schedules/staggered.h"

namespace unlatch {

inline std::vector<Key> fdg_keys() {
  return {
      {.name = "form",
       .words = {"lockstep", "queue"},
       .help = "a barrier each iteration, or queues of two"},
      {.name = "order", .words = {"fb", "bf"}, .help = "forward or backward first in an iteration"},
      {.name = "weights",
       .words = {"exact", "in_place"},
       .help = "weights in the input-gradient path: of the forward, or of now"},
      {.name = "shrink",
       .type = Key::Type::number,
       .default_number = 1,
       .help = "beta, 0 < beta <= 1: on gradients arriving at stages below the last"}};
}

/// Throws Error unless 0 < beta <= 1.
inline void check_shrink(std::string_view name, const Options& options) {
  const double beta = options.number("shrink");
  require(beta > 0 && beta <= 1, "{}: shrink={} must lie in 0 < shrink <= 1", name, beta);
}

/// Every stage steps with a delay of 2(K-1-k) batches and updates once every `accumulate`.
inline Schedule fdg_schedule(std::string name, const Shape& shape, const Options& options,
                             int accumulate = 1) {
  const std::vector<int> two(shape.stages - 1, 2);  // capacities 1 + p and 1 + q with p = q = 1
  Staggered staggered{
      .specification = std::move(name),
      .lockstep = options.is("form", "lockstep"),
      .behind = {},
      .delay = delays(shape, 2, unbounded),
      .forward_capacity = two,
      .backward_capacity = two,
      .backward_first = options.is("order", "bf"),
      .weights = options.is("weights", "exact") ? Weights::as_forward : Weights::current,
      .accumulate = accumulate};
  for (int k = 0; k < shape.stages; ++k) staggered.behind.push_back(k);
  Schedule schedule = staggered.make(shape);
  schedule.learning().gradient_scale = options.number("shrink");
  return schedule;
}

/// Backwards of a stage between a forward and that of the same batch: 2(K-1-k); bf: one less.
inline std::vector<int> fdg_delays(const Shape& shape, const Options& options) {
  std::vector<int> result = delays(shape, 2, unbounded);
  if (options.is("order", "bf")) {
    for (int& delay : result) delay = std::max(0, delay - 1);
  }
  return result;
}

/// Most tapes alive at once; bf: B frees its tape before F stores the next.
inline std::vector<int> fdg_tapes(const Shape& shape, const Options& options) {
  std::vector<int> result = delays(shape, 2, shape.batches);
  for (int& tapes : result) {
    if (options.is("order", "fb")) ++tapes;
    tapes = std::clamp(tapes, 1, shape.batches);
  }
  return result;
}

}  // namespace unlatch
