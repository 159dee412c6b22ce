// The heuristic of Qi et al., ICLR 2024 (arXiv 2401.10241), section 4: time is only a guide to the
// order; each choice below is tried both ways.
#include "schedules/zb_auto_search.h"

#include <algorithm>
#include <optional>

namespace unlatch {
namespace {

struct Choices {
  bool late_warm_up = false;   ///< warm up with an F that ends after the first gradient arrives
  bool hold_forwards = false;  ///< leave out an F that would delay the rank's next I
  bool keep_gaps = false;      ///< wait, rather than run W late, while another rank idles more
};

/// Runs all ranks at once, micro-batch by micro-batch, and notes what each does.
class Search {
 public:
  Search(int ranks, int micro_batches, const ZeroBubbleCosts& costs, Choices choices)
      : micro_batches_(micro_batches), costs_(costs), choices_(choices) {
    for (int r = 0; r < ranks; ++r) ranks_.emplace_back(r, micro_batches);
  }

  ZeroBubbleOrder run() {
    warm_up();
    for (int i = 1; i < micro_batches_; ++i) {
      forward_where_due();
      for (int r = last(); r >= 0; --r) {
        if (r == 0 && ranks_[0].forwards() == micro_batches_) drain_weights(ranks_[0]);
        fill_gap(ranks_[r], gradient_arrival(r));
        backward_input(r);
      }
    }
    ZeroBubbleOrder result;
    for (RankState& rank : ranks_) {
      drain_weights(rank);
      result.longest_span = std::max(result.longest_span, rank.clock - rank.start);
      result.orders.push_back(std::move(rank.order));
    }
    return result;
  }

 private:
  struct RankState {
    RankState(int r, int micro_batches) : stage{r}, order(micro_batches) {}
    Stage stage;
    RankOrder order;
    double clock = 0;
    double start = 0;  ///< of its first F
    double idle = 0;   ///< between its tasks so far
    std::vector<double> forward_ends, input_ends;
    int weights = 0;

    int forwards() const { return static_cast<int>(forward_ends.size()); }
    int inputs() const { return static_cast<int>(input_ends.size()); }
    bool weight_waits() const { return weights < inputs(); }
  };

  int last() const { return static_cast<int>(ranks_.size()) - 1; }

  double activation_arrival(int r) const {
    const RankState& rank = ranks_[r];
    if (r == 0) return rank.clock;
    return ranks_[r - 1].forward_ends[rank.forward_ends.size()] + costs_.transfer;
  }
  double gradient_arrival(int r) const {
    const RankState& rank = ranks_[r];
    if (r == last()) return rank.clock;
    return ranks_[r + 1].input_ends[rank.input_ends.size()] + costs_.transfer;
  }

  void advance(RankState& rank, double arrival, double length) {
    const double begin = std::max(rank.clock, arrival);
    if (rank.forward_ends.empty()) {
      rank.start = begin;
    } else {
      rank.idle += begin - rank.clock;
      most_idle_ = std::max(most_idle_, rank.idle);
    }
    rank.clock = begin + length;
  }
  void forward(int r) {
    RankState& rank = ranks_[r];
    advance(rank, activation_arrival(r), costs_.forward);
    rank.forward_ends.push_back(rank.clock);
    rank.order.forward(rank.stage);
  }
  void backward_input(int r) {
    RankState& rank = ranks_[r];
    advance(rank, gradient_arrival(r), costs_.input_gradient);
    rank.input_ends.push_back(rank.clock);
    rank.order.backward_input(rank.stage);
  }
  void backward_weight(RankState& rank) {
    advance(rank, rank.clock, costs_.weight_gradient);
    ++rank.weights;
    rank.order.backward_weight();
  }
  void drain_weights(RankState& rank) {
    while (rank.weight_waits()) backward_weight(rank);
  }

  /// Every rank its first F, as many more as fit before its first gradient, then its first I.
  void warm_up() {
    for (int r = 0; r <= last(); ++r) forward(r);
    const std::vector<int> more = forwards_before_first_gradient();
    for (int r = 0; r <= last(); ++r) {
      for (int n = 0; n < more[r]; ++n) forward(r);
    }
    for (int r = last(); r >= 0; --r) backward_input(r);
  }

  std::vector<int> forwards_before_first_gradient() const {
    std::vector<int> more(ranks_.size(), 0);
    std::optional<double> first_input_end;  // on the rank after r
    for (int r = last(); r >= 0; --r) {
      double clock = ranks_[r].clock;
      const double arrival = first_input_end ? *first_input_end + costs_.transfer : clock;
      const auto fits = [&] {
        return clock + costs_.forward <= arrival || (choices_.late_warm_up && clock < arrival);
      };
      while (more[r] + 1 < std::min(micro_batches_, costs_.tape_limit) && fits()) {
        ++more[r];
        clock += costs_.forward;
      }
      first_input_end = std::max(clock, arrival) + costs_.input_gradient;
    }
    for (int r = 1; r <= last(); ++r) more[r] = std::max(0, std::min(more[r], more[r - 1] - 1));
    return more;
  }

  /// One F on every rank that wants it; none where the next rank leaves its own out.
  void forward_where_due() {
    std::vector<bool> due(ranks_.size(), false);
    for (int r = last(); r >= 0; --r) {
      const bool next_ready =
          r == last() || due[r + 1] || ranks_[r + 1].forwards() == micro_batches_;
      due[r] = ranks_[r].forwards() < micro_batches_ && next_ready &&
               !(choices_.hold_forwards && delays_input(r, r < last() && due[r + 1]));
    }
    for (int r = 0; r <= last(); ++r) {
      if (!due[r]) continue;
      while (!fits_another_tape(ranks_[r])) backward_weight(ranks_[r]);
      fill_gap(ranks_[r], activation_arrival(r));
      forward(r);
    }
  }

  /// True where one more F would end so late that the rank became the one that idles most.
  bool delays_input(int r, bool next_runs_forward) const {
    const RankState& rank = ranks_[r];
    if (r == last() || rank.forwards() < ranks_[r + 1].forwards() + 2) return false;
    const double gradient = ranks_[r + 1].clock + (next_runs_forward ? costs_.forward : 0) +
                            costs_.input_gradient + costs_.transfer;
    return rank.clock + costs_.forward - gradient > most_idle_ - rank.idle;
  }

  /// Counted, not summed up task by task, so that fractions leave no error behind.
  bool fits_another_tape(const RankState& rank) const {
    const int whole = rank.forwards() - rank.inputs();
    const int partial = rank.inputs() - rank.weights;
    return partial == 0 || whole + 1 + costs_.weight_share * partial <= costs_.tape_limit + 1e-9;
  }

  /// W until the next task can start; the last W may delay it.
  void fill_gap(RankState& rank, double arrival) {
    while (rank.weight_waits() && rank.clock + costs_.weight_gradient <= arrival) {
      backward_weight(rank);
    }
    if (!rank.weight_waits() || rank.clock >= arrival) return;
    const bool harmless = arrival - rank.clock <= most_idle_ - rank.idle;
    if (!(choices_.keep_gaps && harmless)) backward_weight(rank);
  }

  int micro_batches_;
  ZeroBubbleCosts costs_;
  Choices choices_;
  std::vector<RankState> ranks_;
  double most_idle_ = 0;
};

}  // namespace

ZeroBubbleOrder search_zero_bubble(int ranks, int micro_batches, const ZeroBubbleCosts& costs) {
  std::optional<ZeroBubbleOrder> best;
  for (const bool late_warm_up : {false, true}) {
    for (const bool hold_forwards : {false, true}) {
      for (const bool keep_gaps : {true, false}) {
        ZeroBubbleOrder found =
            Search(ranks, micro_batches, costs, {late_warm_up, hold_forwards, keep_gaps}).run();
        if (!best || found.longest_span < best->longest_span) best = std::move(found);
      }
    }
  }
  return *best;
}

}  // namespace unlatch
