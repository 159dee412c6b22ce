// Hanayo: waves of stages, each going down the ranks and up again, without a second copy of
// weights.
//
// Liu et al., SC 2023 (arXiv 2308.15762). Stages snake over the ranks: 2P of them a wave,
// neighbours at a turning point on one rank. The order is found by greedy list scheduling with F=1
// and B=2: the rank that can start a task first does, backward before forward.
#include <cstdint>
#include <limits>

#include "schedules/error.h"
#include "schedules/rank_order.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

/// One batch played through in time; each stage runs its micro-batches in order, both ways.
class ListScheduler {
 public:
  explicit ListScheduler(const Shape& shape)
      : shape_(shape),
        free_at_(shape.ranks(), 0),
        forwards_(shape.stages),
        backwards_(shape.stages),
        orders_(shape.ranks(), RankOrder(shape.micro_batches)) {}

  std::vector<RankOrder> run() {
    const std::int64_t tasks = std::int64_t{2} * shape_.stages * shape_.micro_batches;
    for (std::int64_t done = 0; done < tasks; ++done) {
      Candidate next;
      for (const Rank r : up_to<Rank>(shape_.ranks())) {
        const Candidate candidate = next_of(r);
        if (candidate.start < next.start) next = candidate;
      }
      start(next);
    }
    return orders_;
  }

 private:
  using Time = std::int64_t;
  static constexpr Time never = std::numeric_limits<Time>::max();
  struct Candidate {
    Op op = Op::forward;
    Stage stage;
    int micro_batch = 0;
    Time start = never;
  };

  /// When the stage's next task has its input; `never` while that is not known or nothing is left.
  Time ready(Op op, Stage k) const {
    const auto end = [](const std::vector<Time>& ends, int i) {
      return i < static_cast<int>(ends.size()) ? ends[i] : never;
    };
    const int i = next_micro_batch(op, k);
    if (i == shape_.micro_batches) return never;
    if (op == Op::forward) return k.value == 0 ? 0 : end(forwards_[k.value - 1], i);
    return k == shape_.last_stage() ? end(forwards_[k.value], i) : end(backwards_[k.value + 1], i);
  }
  int next_micro_batch(Op op, Stage k) const {
    return static_cast<int>((op == Op::forward ? forwards_ : backwards_)[k.value].size());
  }

  /// What the rank starts next: the preferred of the tasks that are ready when the first one is.
  Candidate next_of(Rank r) const {
    Candidate best;
    for (const Stage k : up_to<Stage>(shape_.stages)) {
      if (snake(k, shape_.ranks()) != r) continue;
      for (const Op op : {Op::forward, Op::backward}) {
        const Time at = ready(op, k);
        if (at == never) continue;
        const Candidate candidate{op, k, next_micro_batch(op, k), std::max(at, free_at_[r.value])};
        if (comes_before(candidate, best)) best = candidate;
      }
    }
    return best;
  }
  static bool comes_before(const Candidate& a, const Candidate& b) {
    if (a.start != b.start) return a.start < b.start;
    if (a.op != b.op) return a.op == Op::backward;
    if (a.op == Op::forward) return a.stage > b.stage;  // a stage's own micro-batches come in order
    return std::pair(a.micro_batch, b.stage) < std::pair(b.micro_batch, a.stage);
  }

  void start(const Candidate& task) {
    const bool forward = task.op == Op::forward;
    const Time end = task.start + (forward ? 1 : 2);
    const int rank = snake(task.stage, shape_.ranks()).value;
    free_at_[rank] = end;
    (forward ? forwards_ : backwards_)[task.stage.value].push_back(end);
    forward ? orders_[rank].forward(task.stage) : orders_[rank].backward(task.stage);
  }

  Shape shape_;
  std::vector<Time> free_at_;                            ///< by rank
  std::vector<std::vector<Time>> forwards_, backwards_;  ///< ends, by stage and micro-batch
  std::vector<RankOrder> orders_;
};

Schedule hanayo(const Shape& shape, const Options&) {
  Schedule schedule("hanayo", shape);
  place_in_snake(schedule);
  repeat_every_batch(schedule, ListScheduler(shape).run());
  return schedule;
}

void resolve(const Shape& shape, Options& options) {
  constexpr int most = 1 << 20;
  const int waves = whole_number(options, "hanayo", "waves", 1, most);
  require(shape.chunks == 2 * waves,
          "hanayo: a wave is two stages a rank, so waves={} needs {} of them, not {}; say --chunks "
          "{} or waves={}",
          waves, 2 * waves, shape.chunks, 2 * waves, shape.chunks / 2);
}

Promise promise(const Shape& shape, const Options&) {
  return synchronous_promise(shape, most_tapes(shape, ListScheduler(shape).run()));
}

}  // namespace

Method hanayo_method() {
  return {.name = "hanayo",
          .title = "Hanayo (waves)",
          .source = "Liu et al., SC 2023, arXiv 2308.15762",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 2, .most = many_chunks},
          .staleness = "0",
          .memory = "rank: at most 2*waves*M tapes, as the order found needs; 1 version",
          .keys = {{.name = "waves",
                    .type = Key::Type::number,
                    .default_number = 1,
                    .help = "times that the stages go down the ranks and up again"}},
          .resolve = resolve,
          .make = hanayo,
          .promise = promise};
}

}  // namespace unlatch
