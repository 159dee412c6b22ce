// RankOrder: what one rank of a synchronous schedule runs in a batch, repeated batch after batch.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "schedules/registry.h"

namespace unlatch {

/// The tasks of one rank in one batch of M micro-batches. Each call takes the next micro-batch of
/// its kind on that stage, from 0; what lies beyond M-1 counts but is left out.
class RankOrder {
 public:
  /// Micro-batches count from 0 in the batch.
  struct Entry {
    Op op = Op::forward;
    Stage stage;
    int micro_batch = 0;
    bool ends_block = false;  ///< B that makes one block with the F before it
  };

  explicit RankOrder(int micro_batches) : micro_batches_(micro_batches) {}

  RankOrder& forward(Stage k);
  RankOrder& backward(Stage k) { return add_gradient(Op::backward, k); }
  /// F, then B, as one block: both are done at its end.
  RankOrder& forward_and_backward(Stage forwarded, Stage backwarded);
  /// Its W waits until one of the calls below takes it.
  RankOrder& backward_input(Stage k);
  /// The oldest W that waits, of any stage; nothing if none does.
  RankOrder& backward_weight();
  /// The oldest W of that stage that waits; nothing if none does.
  RankOrder& backward_weight(Stage k);
  /// Every W that still waits, oldest first.
  RankOrder& all_backward_weights();

  /// Calls so far, those beyond M-1 included.
  int forwards(Stage k) const { return count(forwards_, k); }
  const std::vector<Entry>& entries() const& { return entries_; }

 private:
  static int count(const std::map<Stage, int>& counts, Stage k);
  RankOrder& add(Op op, Stage k, int i);
  RankOrder& add_gradient(Op op, Stage k);
  RankOrder& take_weight(std::size_t place);

  int micro_batches_;
  std::map<Stage, int> forwards_, gradients_;
  std::vector<Entry> waiting_;  ///< W, oldest first
  std::vector<Entry> entries_;
};

/// Stage k on rank k mod P, P stages down and P stages up again (one V for two stages a rank): the
/// stages at each turning point share a rank.
Rank snake(Stage k, int ranks);
void place_in_snake(Schedule& schedule);

/// Every rank runs its order once a batch and then updates its stages.
void repeat_every_batch(Schedule& schedule, const std::vector<RankOrder>& orders);

/// By stage, most tapes alive at once: a tape lives from F to B, or to W where backward is split.
std::vector<int> most_tapes(const Shape& shape, const std::vector<RankOrder>& orders);

/// No staleness, one version of the weights, no stored inputs.
Promise synchronous_promise(const Shape& shape, std::vector<int> tapes,
                            std::optional<int> idle = {});

}  // namespace unlatch
