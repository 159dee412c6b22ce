// The order that ZB-H1 and ZB-H2 share: 1F1B with backward split, W delayed to fill the bubble.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedules/rank_order.h"

namespace unlatch {

/// Rank r runs depth * (P-1-r) forwards before its first I (H1: 1, as 1F1B; H2: 2), and W from its
/// step depth * r on, so that every rank holds as many tapes as rank 0.
struct ZeroBubble {
  std::string specification;
  int depth = 1;

  Schedule make(const Shape& shape) const {
    Schedule schedule(specification, shape);
    std::vector<RankOrder> orders;
    for (const Stage k : up_to<Stage>(shape.stages)) orders.push_back(order_of(k, shape));
    repeat_every_batch(schedule, orders);
    return schedule;
  }

  Promise promise(const Shape& shape, std::optional<int> idle) const {
    const int tapes = std::min(shape.micro_batches, depth * (shape.stages - 1) + 1);
    return synchronous_promise(shape, std::vector<int>(shape.stages, tapes), idle);
  }

 private:
  RankOrder order_of(Stage k, const Shape& shape) const {
    const int m = shape.micro_batches;
    const int warm_up = depth * (shape.last_stage() - k);
    RankOrder order(m);
    for (int i = 0; i < std::min(warm_up, m); ++i) order.forward(k);
    for (int i = 0; i < m; ++i) {
      if (warm_up + i < m) order.forward(k);
      order.backward_input(k);
      if (i >= depth * k.value) order.backward_weight();
    }
    order.all_backward_weights();
    return order;
  }
};

}  // namespace unlatch
