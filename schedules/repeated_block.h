// The search behind V-Half and V-Min: one building block of six tasks a rank, repeated for every
// micro-batch and then moved together at both ends of the batch.
#pragma once

#include <string>
#include <vector>

#include "schedules/rank_order.h"

namespace unlatch {

/// When a rank starts its tasks of micro-batch 0, in units of one task (F=I=W of one stage). `down`
/// is stage r of rank r, `up` its stage 2P-1-r. Micro-batch i follows 6i later.
struct BlockStart {
  int forward_down = 0;
  int forward_up = 0;
  int input_up = 0;
  int input_down = 0;
};

/// The orders of all ranks for two stages a rank in a V; W goes where a rank has nothing else to
/// do, and no rank holds more than tape_limit tapes. P blocks, one a rank.
std::vector<RankOrder> repeat_block(const std::vector<BlockStart>& blocks, int micro_batches,
                                    int tape_limit);

/// The schedule that repeats those orders for every batch.
Schedule v_schedule(std::string specification, const Shape& shape,
                    const std::vector<RankOrder>& orders);

}  // namespace unlatch
