// Search of a split: the best of many that are simulated, from one that is best by sums.
#pragma once

#include <compare>
#include <functional>

#include "sim/split.h"

namespace unlatch::sim {

/// What a simulated split is judged by, the earlier the more.
struct SplitScore {
  std::int64_t excess_bytes = 0;  ///< of the worst rank over its limit; 0 where all keep to it
  double period_ns = 0;           ///< of a batch, in the steady state
  std::int64_t peak_bytes = 0;    ///< of the worst rank
  friend auto operator<=>(const SplitScore&, const SplitScore&) = default;
};

struct SplitAnswer {
  Split split;
  SplitScore score;
  int simulated = 0;               ///< splits
  bool all = false;                ///< no split is better: all others are known to be no faster
  std::optional<Split> sums = {};  ///< the split of fastest_split(), where there is one
};

/// What a split may be, and how long it is looked for.
struct SplitLimits {
  std::optional<double> bound = {};  ///< ns: all that are slower are worth nothing
  bool floor_holds = false;          ///< no split is faster than its StageSums::floor()
  int most = 256;                    ///< splits to simulate, about
};

/// The split with the least score. The period of a pipeline is more than its slowest stage: it
/// fills, drains, and waits for messages. The exact answers to the sums, fastest_split() and
/// shortest_split(), are therefore where the search starts (and when they exceed the limit, one
/// that fits, or smallest_split()): single cuts move by up to two layers and neighbouring cuts move
/// together by one, as long as that helps. Then all splits follow, those with the lowest floor
/// first, but for those whose floor is above the best period or the bound: the answer says whether
/// it got through them. Models with more than 20,000 splits are spared that.
SplitAnswer best_split(const StageSums& sums, const SplitLimits& limits,
                       const std::function<SplitScore(const Split&)>& simulate);

}  // namespace unlatch::sim
