// The search behind zb-auto: greedy orders of F, I and W under a memory limit, the shortest kept.
#pragma once

#include <vector>

#include "schedules/rank_order.h"

namespace unlatch {

/// What the search assumes, the same for every rank. Times in any one unit.
struct ZeroBubbleCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double transfer = 0;      ///< between two ranks, one way
  double weight_share = 1;  ///< of a tape: what stays from I to W
  int tape_limit = 0;       ///< whole tapes that fit on a rank, at least one
};

struct ZeroBubbleOrder {
  std::vector<RankOrder> orders;  ///< by rank, one stage each
  double longest_span = 0;        ///< of a rank, first start to last end
};

/// The order with the smallest longest span of the eight that three yes-or-no choices give; the
/// first of equals.
ZeroBubbleOrder search_zero_bubble(int ranks, int micro_batches, const ZeroBubbleCosts& costs);

}  // namespace unlatch
