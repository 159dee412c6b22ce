// What the tests of the pipeline schedules share: one batch, simulated, in the words of the papers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/sim/support.h"
#include "traces/memory.h"
#include "traces/metrics.h"

namespace unlatch::sim {

/// Ticks of 1 ns of one stage: forward, input gradient, weight gradient, and a message.
struct Ticks {
  std::int64_t forward = 1, input_grad = 1, weight_grad = 1, message = 0;

  std::int64_t backward() const { return input_grad + weight_grad; }
  std::int64_t all() const { return forward + backward(); }
};

inline StageCosts costs_of(const Ticks& ticks, int stages) {
  StageTimes times;
  times.forward.assign(stages, nanoseconds(ticks.forward));
  times.backward.assign(stages, nanoseconds(ticks.backward()));
  times.backward_input.assign(stages, nanoseconds(ticks.input_grad));
  times.backward_weight.assign(stages, nanoseconds(ticks.weight_grad));
  times.recompute.assign(stages, nanoseconds(0));
  times.update.assign(stages, nanoseconds(0));
  times.activation_transfer.assign(stages - 1, nanoseconds(ticks.message));
  times.gradient_transfer.assign(stages - 1, nanoseconds(ticks.message));
  times.overlap.assign(stages, 1.0);
  return StageCosts(times);
}

/// One batch of a schedule.
class Batch {
 public:
  Batch(std::string_view spec, int ranks, int micro_batches, int chunks = 1,
        const Ticks& ticks = {}, const MemorySizes& sizes = {})
      : shape_{.stages = ranks * chunks, .chunks = chunks, .micro_batches = micro_batches} {
    const StageCosts costs = costs_of(ticks, shape_.stages);
    const TaskGraph graph = graph_of(spec, shape_, costs.links());
    const Timeline timeline = run(graph, costs);
    metrics_ = unlatch::metrics(graph, timeline);
    memory_ = unlatch::memory(graph, timeline, sizes);
    work_ = ticks.all() * micro_batches * chunks;
  }

  std::int64_t makespan() const { return metrics_.makespan.count(); }
  std::int64_t longest_span() const { return metrics_.longest_span.count(); }
  /// Longest span less the work of a rank.
  std::int64_t idle() const { return longest_span() - work_; }
  double rate() const { return static_cast<double>(idle()) / longest_span(); }
  std::int64_t messages() const { return metrics_.transfers.count; }
  /// Most tapes of stages alive at once, by rank.
  std::vector<int> tapes() const {
    std::vector<int> peaks;
    for (const RankMemory& rank : memory_) peaks.push_back(rank.peak_activations);
    return peaks;
  }
  int most_tapes() const {
    const std::vector<int> peaks = tapes();
    return *std::max_element(peaks.begin(), peaks.end());
  }
  std::vector<std::int64_t> peak_bytes() const {
    std::vector<std::int64_t> peaks;
    for (const RankMemory& rank : memory_) peaks.push_back(rank.peak.bytes);
    return peaks;
  }
  const Metrics& metrics() const& { return metrics_; }

 private:
  Shape shape_;
  Metrics metrics_;
  std::vector<RankMemory> memory_;
  std::int64_t work_ = 0;
};

}  // namespace unlatch::sim
