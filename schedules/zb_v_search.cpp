// The heuristic for ZB-V of Qi et al., ICLR 2024 (arXiv 2401.10241), as its authors published it:
// all ranks advance together, one I and one F a round; time is only a guide to the order.
#include "schedules/zb_v_search.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

namespace unlatch {
namespace {

/// The two halves of a V: rank r holds stage r on the way down and stage 2P-1-r on the way up.
enum Side : std::uint8_t { down, up };

struct Choices {
  bool late_weight_before_forward = true;
  bool late_weight_before_input = true;  ///< on the way up; on the way down always
};

class Search {
 public:
  /// `before`: the idle times of an earlier order that this one is to improve on; may be empty.
  Search(int ranks, int micro_batches, const VCosts& costs, Choices choices,
         const std::vector<double>& before)
      : micro_batches_(micro_batches), costs_(costs), choices_(choices) {
    const double most = before.empty() ? 0 : *std::max_element(before.begin(), before.end());
    for (int r = 0; r < ranks; ++r) {
      ranks_.emplace_back(r, ranks, micro_batches);
      if (!before.empty()) ranks_.back().spare = most - before[r];
    }
  }

  VOrder run() {
    warm_up_to_the_loss();
    warm_up_in_turns();
    for (int round = 0; round < 2 * micro_batches_; ++round) {
      inputs();
      for (int r = 0; r <= last(); ++r) forward_where_possible(r);
    }
    VOrder result;
    for (RankState& rank : ranks_) {
      while (rank.weight_waits()) backward_weight(rank);
      result.idle.push_back(rank.idle);
      result.orders.push_back(std::move(rank.order));
    }
    return result;
  }

 private:
  using Ends = std::array<std::vector<double>, 2>;  ///< by side and micro-batch

  struct RankState {
    RankState(int r, int ranks, int micro_batches)
        : stages{Stage{r}, Stage{2 * ranks - 1 - r}}, order(micro_batches) {}
    std::array<Stage, 2> stages;  ///< by side
    RankOrder order;
    double clock = 0;
    double idle = 0;   ///< since its first F
    double spare = 0;  ///< how much less idle it was before than the most idle rank
    Ends forward_ends, input_ends;
    int weights = 0;

    int forwards(Side side) const { return static_cast<int>(forward_ends[side].size()); }
    int forwards() const { return forwards(down) + forwards(up); }
    int inputs(Side side) const { return static_cast<int>(input_ends[side].size()); }
    bool weight_waits() const { return weights < inputs(down) + inputs(up); }
    int tapes() const { return forwards() - weights; }
  };

  int last() const { return static_cast<int>(ranks_.size()) - 1; }
  int tape_limit() const { return 2 * static_cast<int>(ranks_.size()); }

  /// When what comes from rank `from` is here; now where the rank makes it itself.
  std::optional<double> arrival(const RankState& here, int from, Ends RankState::*ends, Side side,
                                int micro_batch) const {
    if (from < 0 || from > last()) return here.clock;
    const std::vector<double>& there = (ranks_[from].*ends)[side];
    if (micro_batch >= static_cast<int>(there.size())) return std::nullopt;
    return there[micro_batch] + costs_.transfer;
  }
  std::optional<double> activation_arrival(int r, Side side) const {
    const RankState& rank = ranks_[r];
    return arrival(rank, side == down ? r - 1 : r + 1, &RankState::forward_ends, side,
                   rank.forwards(side));
  }
  std::optional<double> gradient_arrival(int r, Side side) const {
    const RankState& rank = ranks_[r];
    return arrival(rank, side == up ? r - 1 : r + 1, &RankState::input_ends, side,
                   rank.inputs(side));
  }

  void advance(RankState& rank, double arrival, double length) {
    const double begin = std::max(rank.clock, arrival);
    if (rank.forwards() > 0) rank.idle += begin - rank.clock;
    most_idle_ = std::max(most_idle_, rank.idle);
    rank.clock = begin + length;
  }
  void forward(int r, Side side) {
    RankState& rank = ranks_[r];
    assert(activation_arrival(r, side) &&
           (side == down || rank.forwards(up) < rank.forwards(down)));
    advance(rank, *activation_arrival(r, side), costs_.forward);
    rank.forward_ends[side].push_back(rank.clock);
    rank.order.forward(rank.stages[side]);
  }
  void backward_input(int r, Side side) {
    RankState& rank = ranks_[r];
    assert(gradient_arrival(r, side));
    advance(rank, *gradient_arrival(r, side), costs_.input_gradient);
    rank.input_ends[side].push_back(rank.clock);
    rank.order.backward_input(rank.stages[side]);
  }
  void backward_weight(RankState& rank) {
    advance(rank, rank.clock, costs_.weight_gradient);
    ++rank.weights;
    rank.order.backward_weight();
  }

  /// The first micro-batch down and up the V. While it is below a rank, this rank and those before
  /// it run more down; never more than the 2(P-r)-1 that leave room for their way up.
  void warm_up_to_the_loss() {
    for (int r = 0; r <= last(); ++r) forward(r, down);
    for (int r = last(); r >= 0; --r) {
      const RankState& rank = ranks_[r];
      const int most = std::min(micro_batches_, tape_limit() - 2 * r - 1);
      while (rank.forwards(down) < most &&
             rank.clock + costs_.forward <= *activation_arrival(r, up)) {
        for (int before = 0; before <= r; ++before) forward(before, down);
      }
      forward(r, up);
    }
  }

  /// Down and up in turns, until every rank has run at least as many forwards as the rank before it
  /// and more of them up.
  void warm_up_in_turns() {
    Side side = down;
    for (int r = 1; r <= last(); ++r) {
      const RankState &rank = ranks_[r], &before = ranks_[r - 1];
      const auto behind = [&] {
        return rank.forwards() < before.forwards() ||
               (rank.forwards(up) <= before.forwards(up) && before.forwards(up) < micro_batches_);
      };
      while (behind()) {
        for (int j = last(); j >= r; --j) {
          if (ranks_[j].forwards(side) < micro_batches_) forward(j, side);
        }
        side = side == down ? up : down;
      }
    }
  }

  /// One I on every rank, in the order in which gradients travel.
  void inputs() {
    std::vector<Side> sides;
    for (int r = 0; r <= last(); ++r) sides.push_back(side_of_next_input(r));
    for (int r = last(); r >= 0; --r) {
      if (sides[r] == down) input(r, down);
    }
    for (int r = 0; r <= last(); ++r) {
      if (sides[r] == up) input(r, up);
    }
  }

  /// Down where the gradient is there or the way up is done with; what is due up arrives in time.
  Side side_of_next_input(int r) const {
    const RankState& rank = ranks_[r];
    if (rank.inputs(down) == rank.inputs(up)) return up;
    return gradient_arrival(r, down) || rank.inputs(up) == micro_batches_ ? down : up;
  }
  void input(int r, Side side) {
    fill_gap(ranks_[r], *gradient_arrival(r, side),
             side == down || choices_.late_weight_before_input);
    backward_input(r, side);
  }

  /// One F, up rather than down; none where nothing has come.
  void forward_where_possible(int r) {
    RankState& rank = ranks_[r];
    if (rank.forwards(up) == micro_batches_) return;
    Side side = down;
    if (rank.forwards(up) < rank.forwards(down) && activation_arrival(r, up)) {
      side = up;
    } else if (rank.forwards(down) == micro_batches_ || !activation_arrival(r, down)) {
      return;
    }
    while (rank.tapes() >= tape_limit() && rank.weight_waits()) backward_weight(rank);
    fill_gap(rank, *activation_arrival(r, side), choices_.late_weight_before_forward);
    forward(r, side);
  }

  /// W until the next task can start; a `late` one that delays it where waiting would make the rank
  /// the most idle one.
  void fill_gap(RankState& rank, double arrival, bool late) {
    while (rank.weight_waits() && rank.clock + costs_.weight_gradient <= arrival) {
      backward_weight(rank);
    }
    const double allowed = std::max(most_idle_, rank.spare) - rank.idle;
    if (late && rank.weight_waits() && arrival - rank.clock > allowed) backward_weight(rank);
  }

  int micro_batches_;
  VCosts costs_;
  Choices choices_;
  std::vector<RankState> ranks_;
  double most_idle_ = 0;
};

VOrder improved(int ranks, int micro_batches, const VCosts& costs, Choices choices) {
  VOrder best = Search(ranks, micro_batches, costs, choices, {}).run();
  while (true) {
    VOrder next = Search(ranks, micro_batches, costs, choices, best.idle).run();
    if (next.most_idle() >= best.most_idle()) return best;
    best = std::move(next);
  }
}

}  // namespace

double VOrder::most_idle() const { return *std::max_element(idle.begin(), idle.end()); }

VOrder search_v(int ranks, int micro_batches, const VCosts& costs) {
  std::optional<VOrder> best;
  for (const bool before_input : {true, false}) {
    for (const bool before_forward : {true, false}) {
      VOrder found = improved(ranks, micro_batches, costs, {before_forward, before_input});
      if (!best || found.most_idle() < best->most_idle()) best = std::move(found);
    }
  }
  return *best;
}

}  // namespace unlatch
