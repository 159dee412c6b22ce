// Split: layers to stages, judged by what each stage costs and keeps before anything is simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/partition.h"
#include "sim/holdings.h"

namespace unlatch::sim {

using Split = std::vector<models::StageRange>;

/// Sizes as --partition takes them: "5/3/4".
std::string text_of(const Split& split);

/// What each layer costs for one micro-batch. One entry a layer; times in ns, sizes in bytes.
struct LayerFacts {
  std::vector<double> forward, backward, recompute;
  std::vector<double> update;        ///< once a batch
  std::vector<double> handover_in;   ///< what a cut in front of the layer costs it
  std::vector<double> handover_out;  ///< what a cut behind it costs it
  std::vector<double> output_bytes, tape_bytes, half_tape_bytes;
  std::vector<double> weight_bytes;  ///< one version
  std::vector<double> state_bytes;   ///< gradient and state of the optimizer
  double input_bytes = 0;            ///< of the first layer

  int layers() const { return static_cast<int>(forward.size()); }
};

/// The way from a stage to the next one and back, for one message at a time.
struct Way {
  double latency_ns = 0;
  double ns_per_byte = 0;
};

/// What a schedule asks of one stage of the model, and what its devices are.
struct StageFacts {
  double recomputed = 0;          ///< share of the micro-batches whose R takes time of its own
  std::vector<Holding> holdings;  ///< of the stage
  Way to_next;                    ///< unused on the last stage
  std::vector<int> kinds{0};      ///< of device, of its copies: which LayerFacts hold
  std::optional<std::int64_t> room = {};  ///< bytes that each of its ranks may keep
};

struct PipelineFacts {
  std::vector<StageFacts> stages;
  std::vector<std::vector<int>> ranks;  ///< stages of each rank, those of all copies of the model
  std::vector<int> rank_kinds = {};     ///< of device, of each rank; empty: all are of the first
  int micro_batches = 1;                ///< of a batch, for each copy
};

/// Sums over consecutive layers in constant time.
class StageSums {
 public:
  /// Layers as each kind of device runs them; they are as large on all.
  StageSums(const std::vector<LayerFacts>& kinds, PipelineFacts pipeline);

  int layers() const { return static_cast<int>(tape_.size()) - 1; }
  int stages() const { return static_cast<int>(pipeline_.stages.size()); }
  int micro_batches() const { return pipeline_.micro_batches; }
  /// ns that a micro-batch takes of the busier of a stage and its link to the next one: with
  /// enough micro-batches the slowest of them is the pace of a pipeline. Of copies of the model the
  /// slowest counts.
  double load(int first, int last, int stage) const;
  /// ns until a micro-batch has gone through the stage and on to the next one, both ways.
  double passage(int first, int last, int stage) const;
  /// Most bytes that the stage keeps.
  double bytes(int first, int last, int stage) const;
  /// Whether the stage keeps to `share` of its room.
  bool fits(int first, int last, int stage, double share = 1) const;
  std::optional<std::int64_t> room(int stage) const;
  /// ns that no batch can be faster than: the work of the busiest rank, updates left out, or the
  /// messages of the busiest link, a nanosecond for the rounding of each task taken off.
  double floor(const Split& split) const;
  /// No split has a lower floor.
  double least_floor() const;

 private:
  using Sums = std::vector<double>;  ///< [j]: of layers 0 .. j-1
  struct Times {
    Sums work, update, recompute;
    std::vector<double> handover_in, handover_out;
  };
  double work(int first, int last, int stage) const;
  double work_on(int kind, int first, int last, int stage) const;
  double update(int first, int last, int stage) const;
  double message(int last, int stage) const;
  double message_floor(int last, int stage) const;

  PipelineFacts pipeline_;
  std::vector<Times> times_;  ///< by kind
  Sums tape_, half_tape_, weight_, state_;
  std::vector<double> output_;
  double input_ = 0;
};

/// Exact, by dynamic programming: of all splits whose stages keep to `share` of their room the one
/// with the smallest largest load (ties as in models::best_partition). Nothing where none does.
std::optional<Split> fastest_split(const StageSums& sums, double share = 1);
/// The least (M-1) x largest load + sum of passages: a batch that fills the pipeline and drains it
/// again takes about that long. For each bound of the load by dynamic programming; exact where the
/// splits have few different loads, else the best of evenly chosen bounds. As above otherwise, and
/// the same split as above where stages x layers^2 exceed 4 million.
std::optional<Split> shortest_split(const StageSums& sums);
/// Exact: the smallest largest bytes, or share of the room where stages have one.
Split smallest_split(const StageSums& sums);

}  // namespace unlatch::sim
