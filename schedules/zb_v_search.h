// The search behind zb-v:order=search: greedy orders of F, I and W in a V, the least idle one kept.
#pragma once

#include <vector>

#include "schedules/rank_order.h"

namespace unlatch {

/// What the search assumes of every stage, in any one unit.
struct VCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double transfer = 0;  ///< between two ranks, one way
};

struct VOrder {
  std::vector<RankOrder> orders;  ///< by rank, which holds stages r and 2P-1-r
  std::vector<double> idle;       ///< by rank, from its first start to its last end

  double most_idle() const;
};

/// The order whose most idle rank is idle the least, of those that two yes-or-no choices give, each
/// repeated while it gains; the first of equals. No rank holds more than 2P tapes, the memory of P
/// micro-batches, a tape being whole until its W.
VOrder search_v(int ranks, int micro_batches, const VCosts& costs);

}  // namespace unlatch
