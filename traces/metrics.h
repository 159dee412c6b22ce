// Metrics: what a timeline, predicted or measured, says about its schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/idle.h"
#include "traces/timeline.h"

namespace unlatch {

struct RankMetrics {
  nanoseconds busy{0};                ///< union of the rank's compute spans
  nanoseconds recompute{0};           ///< all R, hidden or not
  nanoseconds idle{0};                ///< makespan - busy
  std::optional<double> utilization;  ///< (F + B) / makespan
  IdleCauses idle_by_cause;
};

struct StageMetrics {
  Rank rank;
  int forward_staleness = 0;
  int weight_staleness = 0;
  int updates = 0;
};

/// Data that crosses ranks, over links that take time or none. The output errors of direct feedback
/// count as messages without bytes.
struct TransferTotals {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

/// The metrics of `unlatch simulate`, defined in the contract. Ratios of a zero time are empty.
struct Metrics {
  nanoseconds makespan{0};
  std::optional<double> bubble_ratio;  ///< 1 - sum of busy / (ranks x makespan)
  nanoseconds longest_span{0};  ///< most of (end of last task - start of first) over the ranks
  std::optional<double> span_bubble_ratio;  ///< 1 - most busy / longest span
  Rank bottleneck;                          ///< most busy, ties to the lowest
  std::vector<RankMetrics> ranks;
  std::vector<StageMetrics> stages;
  TransferTotals transfers;
};

/// As in metrics().
TransferTotals transfer_totals(const TaskGraph& graph,
                               const std::vector<std::int64_t>& input_bytes);

/// `input_bytes` per stage: one stored input, which is what crosses the boundary before the stage,
/// both ways; empty means 0.
Metrics metrics(const TaskGraph& graph, const Timeline& timeline,
                const std::vector<std::int64_t>& input_bytes = {});

}  // namespace unlatch
