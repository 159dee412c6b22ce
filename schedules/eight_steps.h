// The order that DualPipe and DualPipeV share: eight steps between two stages of one rank.
#pragma once

#include "schedules/rank_order.h"

namespace unlatch {

/// `near` is the distance of the rank from the end where its `first` stage gets its input, `depth`
/// the distance of the turning point from there, and M the micro-batches of each stage. Blocks
/// of a forward and a backward, which DualPipe overlaps, run one after the other here, and end
/// together.
inline RankOrder eight_steps(int near, int depth, int micro_batches, Stage first, Stage second) {
  RankOrder order(micro_batches);
  const int to_turn = depth - near - 1;
  for (int i = 0; i < 2 * to_turn; ++i) order.forward(first);
  for (int i = 0; i <= near; ++i) order.forward(first).forward(second);
  for (int i = 0; i < to_turn; ++i) order.backward_input(second).backward_weight().forward(second);
  for (int i = 0; i < micro_batches - 2 * depth + near + 1; ++i) {
    const bool apart = i == 0 && to_turn == 0;  // at the turning point the first F is alone
    apart ? order.forward(first).backward(second) : order.forward_and_backward(first, second);
    order.forward_and_backward(second, first);
  }
  for (int i = 0; i < to_turn; ++i) order.backward(second).forward_and_backward(second, first);
  for (int i = 0; i < 2 * (near + 1); ++i) {  // half-way on, W waits
    const Stage k = i % 2 == 0 ? second : first;
    i <= near ? order.backward(k) : order.backward_input(k);
  }
  for (int i = 0; i < to_turn; ++i) order.backward_weight().backward_input(first);
  order.all_backward_weights();
  return order;
}

}  // namespace unlatch
