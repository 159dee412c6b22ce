// RunMeter: the metrics and memory peaks of a run from its tasks as they pass by.
//
// The figures are those of metrics() and memory(), without a graph or timeline: a rank's tasks are
// put in the order of their starts as soon as no earlier one can come, and then forgotten.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "schedules/task_stream.h"
#include "traces/memory.h"
#include "traces/metrics.h"
#include "traces/wait_cause.h"

namespace unlatch {

/// What is left of a run that was never held.
struct RunSummary {
  Metrics metrics;
  /// By rank: the peaks; no levels, and no task is named as the cause.
  std::vector<RankMemory> memory;
  std::int64_t tasks = 0;          ///< hidden ones and messages included
  std::int64_t critical_path = 0;  ///< tasks on it, without hidden ones
};

class RunMeter {
 public:
  /// `recomputes`: some task of the run is an R.
  RunMeter(const Shape& shape, std::vector<Rank> rank_of_stage, GradientSource gradients,
           bool recomputes, MemorySizes sizes);

  /// The next task, in the order of a graph, and when it ran.
  void add(const StreamedTask& task, Span span);
  RunSummary finish();

 private:
  using Cause = WaitCause;
  struct Wait {
    nanoseconds ready{-1};
    Cause cause = Cause::none;
    bool message = false;        ///< for something that took a link
    nanoseconds handed_over{0};  ///< to that link
  };
  /// What later tasks may ask of one that has run.
  struct Past {
    nanoseconds end{0};
    nanoseconds handed_over{0};
    std::int64_t path = 0;
    Stage stage;
    Rank rank;
    Op op = Op::forward;
  };
  struct Piece {
    Span span;
    std::int64_t order = 0;
    Op op = Op::forward;
    Wait wait;
    auto place() const { return std::pair(span.start, order); }
    bool operator>(const Piece& other) const { return place() > other.place(); }
  };
  /// What a task adds or frees at its start or end.
  struct Change {
    nanoseconds at{0};
    bool later = true;  ///< false: the end of a task that began earlier, before all else at `at`
    std::int64_t order = 0;
    bool at_end = false;
    Stage stage;
    int activations = 0;
    int inputs = 0;
    int weight_versions = 0;
    std::int64_t bytes = 0;
    auto place() const { return std::tuple(at, later, order, at_end); }
    bool operator>(const Change& other) const { return place() > other.place(); }
  };
  template <class Entry>
  using Soonest = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  struct RankState {
    RankMetrics metrics;
    nanoseconds useful{0};
    nanoseconds busy_until{0};
    nanoseconds first_start{-1};
    Soonest<Piece> pieces;
    Soonest<Change> changes;
    MemoryLevel level;
    RankMemory memory;
  };
  struct Versions {
    int of_forward = 0;
    int of_tape = 0;
  };
  struct StageState {
    StageMetrics metrics;
    std::unordered_map<int, Versions> read;  ///< by micro-batch whose gradient is not there yet
    std::optional<Versions> oldest;          ///< of the gradients that no update has applied
    std::map<int, bool> stashed;             ///< old versions that are kept
    int versions = 1;
  };

  static bool is_better(const Wait& wait, const Wait& than);
  void note_past(const StreamedTask& task, Span span);
  void count_transfers(const StreamedTask& task);
  Wait wait_of(const StreamedTask& task) const;
  void meter_lane(const StreamedTask& task, Span span);
  void run_until(RankState& rank, nanoseconds time);
  void close(RankState& rank, const Piece& piece);
  void attribute(RankState& rank, nanoseconds from, const Piece& piece);
  void note_memory(const StreamedTask& task, Span span);
  void apply(RankState& rank, const Change& change);
  void note_staleness(const Task& task);
  static void note_gradient(StageState& stage, int micro_batch);
  std::int64_t bytes_of(const std::vector<std::int64_t>& sizes, Stage k) const {
    return sizes.empty() ? 0 : sizes[k.value];
  }

  const Shape shape_;
  const bool has_feedback_;
  const bool recomputes_;
  const MemorySizes sizes_;
  std::vector<Past> past_;          ///< by number
  std::vector<Wait> hidden_waits_;  ///< by lane: of the hidden tasks since its last compute task
  std::vector<RankState> ranks_;
  std::vector<StageState> stages_;
  TransferTotals transfers_;
  nanoseconds last_end_{0};
  std::int64_t last_path_ = 0;
  std::int64_t order_ = 0;
};

}  // namespace unlatch
