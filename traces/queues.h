// Queues: what waits between stages and for local heads, as an executor keeps it: outputs and their
// gradients, on the rank that made them.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/memory.h"

namespace unlatch {

struct QueueChange {
  Rank rank;
  int count = 0;
  std::int64_t bytes = 0;
};

/// Follows the tasks of a graph in their order. An output waits from the end of the F that made it
/// to the start of the last F that takes it, a gradient from the end of B or I (that of the loss:
/// of F) to the start of the B or I that takes it; what a local head goes by waits for it too.
class Queues {
 public:
  /// Everything referred to must outlive it.
  Queues(const TaskGraph& graph, const MemorySizes& sizes);

  /// What a task takes as it starts.
  std::vector<QueueChange> taken(const Task& task);
  /// What it leaves as it ends.
  std::vector<QueueChange> left(const Task& task) const;

 private:
  GradientSource source() const { return graph_.learning().local_gradients.source; }
  bool has_feedback() const { return source() == GradientSource::feedback; }
  /// The stage learns from a head that looks at its output.
  bool keeps_output_for_head(Stage k) const;
  bool sends_gradient(Stage k) const;
  bool is_wanted_above(Stage k, MicroBatch i) const;
  QueueChange output(Stage k, int count) const;
  /// Of the gradient on its way to a stage.
  QueueChange gradient(Stage k, int count) const;

  const TaskGraph& graph_;
  const MemorySizes& sizes_;
  std::vector<std::vector<int>> takers_;  ///< of each output, by stage above; empty: one each
};

}  // namespace unlatch
