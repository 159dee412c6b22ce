// ZB-V: zero bubble within the memory of 1F1B, two stages a rank placed in a V.
//
// Qi et al., ICLR 2024 (arXiv 2401.10241), in the order that PyTorch's ScheduleZBVZeroBubble writes
// by hand, or in the one that the authors' heuristic finds for given times. Rank r holds stages r
// and 2P-1-r, so the loss is on rank 0. No idle time where F=I=W and M >= 2P-1.
#include <algorithm>

#include "schedules/assumed_times.h"
#include "schedules/rank_order.h"
#include "schedules/schedules.h"
#include "schedules/zb_v_search.h"

namespace unlatch {
namespace {

RankOrder order_of(Rank rank, const Shape& shape) {
  const int ranks = shape.ranks();
  const int r = rank.value;
  const Stage down{r}, up{2 * ranks - 1 - r};
  // Written for at least 2P-1 micro-batches; those that the batch has not are left out.
  const int written = std::max(2 * ranks - 1, shape.micro_batches);
  RankOrder order(shape.micro_batches);
  const auto split = [&](Stage k) { order.backward_input(k).backward_weight(k); };
  for (int i = 0; i < 2 * (ranks - r) - 1; ++i) order.forward(down);
  for (int i = 0; i < r; ++i) order.forward(up).forward(down);
  for (int i = 0; i < ranks - r; ++i) {
    order.forward(up);
    split(up);
  }
  while (order.forwards(up) < order.forwards(down) || order.forwards(down) < written) {
    if (order.forwards(down) < written) order.forward(down);
    split(down);
    order.forward(up);
    split(up);
  }
  for (int i = 0; i < r; ++i) order.backward_input(down).backward_input(up);
  for (int i = 0; i < ranks - r; ++i) split(down);
  for (int i = 0; i < shape.micro_batches; ++i) order.backward_weight(up);
  order.all_backward_weights();
  return order;
}

std::vector<RankOrder> fixed_orders(const Shape& shape) {
  std::vector<RankOrder> all;
  for (const Rank r : up_to<Rank>(shape.ranks())) all.push_back(order_of(r, shape));
  return all;
}

VOrder found(const Shape& shape, const Options& options) {
  const std::vector<int>& times = options.list("times");
  return search_v(shape.ranks(), shape.micro_batches,
                  {.forward = static_cast<double>(times[0]),
                   .input_gradient = static_cast<double>(times[1]),
                   .weight_gradient = static_cast<double>(times[2]),
                   .transfer = options.number("comm")});
}

std::vector<RankOrder> orders(const Shape& shape, const Options& options) {
  return options.is("order", "search") ? found(shape, options).orders : fixed_orders(shape);
}

Schedule zb_v(const Shape& shape, const Options& options) {
  Schedule schedule("zb-v", shape);
  place_in_snake(schedule);
  repeat_every_batch(schedule, orders(shape, options));
  return schedule;
}

void resolve(const Shape&, Options& options) {
  resolve_assumed_times("zb-v", options);
  const std::vector<int>& times = options.list("times");
  require(options.is("order", "search") || times == std::vector<int>{1, 1, 1},
          "zb-v: times={} has no effect without order=search", fmt::join(times, "/"));
}

/// At equal times and free transfers: of the search only where it assumes them.
std::optional<int> idle(const Shape& shape, const Options& options) {
  if (options.is("order", "search")) {
    const std::vector<int>& times = options.list("times");
    const bool equal = times[0] == times[1] && times[1] == times[2];
    if (!equal || options.number("comm") != 0) return std::nullopt;
    return static_cast<int>(found(shape, options).most_idle() / times[0]);
  }
  if (shape.micro_batches >= 2 * shape.ranks() - 1) return 0;
  return std::nullopt;
}

Promise promise(const Shape& shape, const Options& options) {
  return synchronous_promise(shape, most_tapes(shape, orders(shape, options)),
                             idle(shape, options));
}

}  // namespace

Method zb_v_method() {
  return {.name = "zb-v",
          .title = "Zero bubble V",
          .source = "Qi et al., ICLR 2024: PyTorch's ScheduleZBVZeroBubble, or the authors' search",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = 2},
          .staleness = "0",
          .memory = "rank: min(2M, 2P) tapes, 1 version",
          .keys = {{.name = "order",
                    .words = {"fixed", "search"},
                    .help = "as PyTorch writes it by hand, or found by the authors' heuristic"},
                   {.name = "times",
                    .type = Key::Type::per_stage,
                    .help = "F/I/W of a stage as the search assumes them, whole numbers in any "
                            "unit; default 1/1/1"},
                   {.name = "comm",
                    .type = Key::Type::number,
                    .default_number = 0,
                    .help = "a transfer between ranks as the search assumes it, unit of times",
                    .only_with = OnlyWith{"order", {"search"}}}},
          .resolve = resolve,
          .make = zb_v,
          .promise = promise};
}

}  // namespace unlatch
