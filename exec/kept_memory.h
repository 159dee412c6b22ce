// KeptMemory: what the stages of each rank keep between tasks, counted as it is stored and dropped.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "schedules/graph.h"

namespace unlatch::exec {

/// The executor's own account, by the rules of the prediction (memory() in traces/memory.h) and in
/// the bytes of the tensors themselves; a tensor that two of its entries share counts in both.
/// Thread-safe.
///
/// Not in it: the server's weights and what copies hold of them (asgd, ssp, ssd-sgd), the two
/// gradients a copy of ssd-sgd, the sums behind compressed gradients (ssgd:compression=topk), the
/// drift of pipedream:correct=, and running statistics.
class KeptMemory {
 public:
  enum class Kind : std::uint8_t {
    activations,  ///< tapes
    inputs,       ///< stored for R
    weights,      ///< versions; the parameters of a local head come on top of the first
    gradients,    ///< summed since the last update
    optimizer,    ///< its state
    queues,       ///< outputs and gradients on their way, on the rank that made them
  };
  static constexpr std::size_t kinds = 6;

  struct Amount {
    int count = 0;
    std::int64_t bytes = 0;
  };
  struct Level {
    std::array<Amount, kinds> amounts = {};

    const Amount& of(Kind kind) const { return amounts[static_cast<std::size_t>(kind)]; }
    std::int64_t queued_bytes() const { return of(Kind::queues).bytes; }
    /// All that the prediction counts: without the queues.
    std::int64_t bytes() const;
  };
  struct Account {
    Level now;
    Level peak;  ///< first moment of the most bytes(), within tasks too
    int peak_activations = 0;
    int peak_inputs = 0;
    int peak_weight_versions = 0;       ///< of any one stage of the rank
    std::int64_t peak_with_queues = 0;  ///< most bytes, those of the queues included
  };

  explicit KeptMemory(const TaskGraph& graph);

  /// A stage keeps so many more, or fewer.
  void add(Stage k, Kind kind, int count, std::int64_t bytes);

  Account of(Rank rank) const;

 private:
  struct OfRank {
    mutable std::mutex mutex;
    Account account;
  };

  const TaskGraph& graph_;
  std::vector<OfRank> ranks_;
  std::vector<int> versions_;  ///< by stage; behind its rank's mutex
};

}  // namespace unlatch::exec
