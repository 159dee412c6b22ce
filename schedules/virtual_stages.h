// The order of chunks in interleaved schedules: groups of micro-batches pass chunk after chunk.
#pragma once

#include <string_view>
#include <vector>

#include "schedules/registry.h"

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

}  // namespace unlatch
