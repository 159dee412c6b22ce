// The order of chunks in interleaved schedules: groups of micro-batches pass chunk after chunk.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "schedules/rank_order.h"

namespace unlatch {

/// The keys group and rule.
std::vector<Key> group_keys();

/// Sets group to the number N of micro-batches of a group. rule=rounds cuts the batch in
/// max(1, M div group) equal groups, so that N may exceed what was asked; rule=megatron takes
/// groups of N and a shorter last one of at least P. Throws Error where the rule cannot.
void resolve_groups(std::string_view name, const Shape& shape, Options& options);

/// By step of the M*V forwards of a rank: N micro-batches on chunk 0, the same on chunk 1, .. ,
/// then the next group. Backwards take the chunks in opposite order.
std::vector<int> chunk_of_step(const Shape& shape, const Options& options);

/// The stage of that chunk of rank r (stage k is on rank k mod P).
inline Stage stage_of_chunk(const Shape& shape, int chunk, Rank r) {
  return {chunk * shape.ranks() + r.value};
}

/// Rank r runs `ahead` forwards for each of the P-1-r ranks behind it and a group for each further
/// chunk, then one forward and one backward in turn. `backward(order, k, step, r)` adds the latter
/// for stage k, steps counted from 0; every W left comes last.
template <class Backward>
std::vector<RankOrder> interleaved_orders(const Shape& shape, const Options& options, int ahead,
                                          const Backward& backward) {
  const std::vector<int> chunks = chunk_of_step(shape, options);
  const int steps = static_cast<int>(chunks.size());
  const int group = static_cast<int>(options.number("group"));
  std::vector<RankOrder> all;
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    const int behind = shape.ranks() - 1 - r.value;
    const int warm_up = std::min(ahead * behind + (shape.chunks - 1) * group, steps);
    RankOrder& order = all.emplace_back(shape.micro_batches);
    for (int step = 0; step < steps + warm_up; ++step) {
      if (step < steps) order.forward(stage_of_chunk(shape, chunks[step], r));
      if (step < warm_up) continue;
      const int back = step - warm_up;
      backward(order, stage_of_chunk(shape, shape.chunks - 1 - chunks[back], r), back, r);
    }
    order.all_backward_weights();
  }
  return all;
}

}  // namespace unlatch
