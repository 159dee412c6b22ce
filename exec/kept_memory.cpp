#include "exec/kept_memory.h"

#include <algorithm>

namespace unlatch::exec {

std::int64_t KeptMemory::Level::bytes() const {
  std::int64_t sum = 0;
  for (const Amount& amount : amounts) sum += amount.bytes;
  return sum - queued_bytes();
}

KeptMemory::KeptMemory(const TaskGraph& graph)
    : graph_(graph), ranks_(graph.ranks()), versions_(graph.shape().stages, 0) {}

void KeptMemory::add(Stage k, Kind kind, int count, std::int64_t bytes) {
  OfRank& rank = ranks_[graph_.rank_of(k).value];
  const std::lock_guard lock(rank.mutex);
  Account& account = rank.account;
  Amount& amount = account.now.amounts[static_cast<std::size_t>(kind)];
  amount.count += count;
  amount.bytes += bytes;
  switch (kind) {
    case Kind::activations:
      account.peak_activations = std::max(account.peak_activations, amount.count);
      break;
    case Kind::inputs:
      account.peak_inputs = std::max(account.peak_inputs, amount.count);
      break;
    case Kind::weights:
      versions_[k.value] += count;
      account.peak_weight_versions = std::max(account.peak_weight_versions, versions_[k.value]);
      break;
    default:
      break;
  }
  const std::int64_t kept = account.now.bytes();
  if (kept > account.peak.bytes()) account.peak = account.now;
  account.peak_with_queues = std::max(account.peak_with_queues, kept + account.now.queued_bytes());
}

KeptMemory::Account KeptMemory::of(Rank rank) const {
  const OfRank& found = ranks_[rank.value];
  const std::lock_guard lock(found.mutex);
  return found.account;
}

}  // namespace unlatch::exec
