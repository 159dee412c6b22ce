// Pareto front: the choices that no other beats in time, memory and staleness at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace unlatch::sim {

/// What a choice costs. Less is better in each.
struct Price {
  double period_ns = 0;         ///< of a batch, in the steady state
  std::int64_t peak_bytes = 0;  ///< of the worst rank
  int staleness = 0;            ///< most forward staleness of a stage, in updates
  friend bool operator==(const Price&, const Price&) = default;
};

/// At least as good in all three and better in one.
bool beats(const Price& a, const Price& b);

/// Which of them no other beats; of several with one price the first.
std::vector<bool> pareto_front(std::span<const Price> prices);

}  // namespace unlatch::sim
