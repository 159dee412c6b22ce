// Memory of each rank over time, from a timeline: what is kept, when it peaks and at which task.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/timeline.h"

namespace unlatch {

/// Bytes per stage, of one micro-batch where that applies. Empty vectors mean 0.
struct MemorySizes {
  std::vector<std::int64_t> activation;              ///< one tape
  std::vector<std::int64_t> input;                   ///< one stored input
  std::vector<std::int64_t> weight_grad_activation;  ///< part of a tape kept between I and W
  std::vector<std::int64_t> weight;                  ///< one version
  std::vector<std::int64_t> gradient;
  std::vector<std::int64_t> optimizer;
  std::vector<std::int64_t> output;           ///< one on its way to the next stage
  std::vector<std::int64_t> output_gradient;  ///< one on its way back; of the last: of the loss

  bool knows_queues() const { return !output.empty() || !output_gradient.empty(); }
  /// For a schedule that runs `parts` micro-batches in one piece: all but weights, gradients and
  /// optimizer state is that many times as large.
  MemorySizes in_one_piece(int parts) const;
  /// For a graph with that many copies of the stages.
  MemorySizes for_copies(int copies) const;
};

/// What one rank keeps from this moment on.
struct MemoryLevel {
  nanoseconds at{0};
  TaskId cause;  ///< task whose start or end changed it; -1: before any task
  int activations = 0;
  int inputs = 0;
  int weight_versions = 0;
  std::int64_t bytes = 0;  ///< without the queues
  int queued = 0;
  std::int64_t queued_bytes = 0;
};

struct RankMemory {
  std::vector<MemoryLevel> levels;  ///< in time order, one a moment after the first (before all)
  int peak_activations = 0;
  int peak_inputs = 0;
  int peak_weight_versions = 0;       ///< of any one stage of the rank
  MemoryLevel peak;                   ///< first moment of the most bytes
  /// Most bytes, those of the queues included; where their sizes are known.
  std::optional<std::int64_t> peak_with_queues;
};

/// Contract, "Memory": a tape lives from the start of F (of R if recomputed) to the end of B; with
/// I and W, I frees all but the weight-grad activation, W the rest. Stored inputs (kept by every F
/// of a schedule that recomputes) live from the start of F to the end of B.
/// Where backward is split a tape counts until W, with fewer bytes after I. What ends at a moment
/// is freed before what starts then is stored. Queues are counted beside the rest (Queues), and
/// only where their sizes are known.
std::vector<RankMemory> memory(const TaskGraph& graph, const Timeline& timeline,
                               const MemorySizes& sizes);

/// The first moment at which a rank keeps more than `limit` bytes; its cause names the task.
std::optional<MemoryLevel> first_above(const RankMemory& rank, std::int64_t limit);

}  // namespace unlatch
