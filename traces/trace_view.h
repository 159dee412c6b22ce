// TraceView: what of a run a trace shows, and on which track.
#pragma once

#include <string>
#include <vector>

#include "traces/chrome_trace.h"

namespace unlatch {

/// Reads the graph, timeline and options it was made from; they must outlive it.
class TraceView {
 public:
  TraceView(const TaskGraph& graph, const Timeline& timeline, const ChromeTraceOptions& options);

  const TaskGraph& graph() const& { return graph_; }
  const Timeline& timeline() const& { return timeline_; }
  const ChromeTraceOptions& options() const& { return options_; }

  bool shows(Rank rank) const { return shown_ranks_[rank.value]; }
  /// Thread number of a lane within its process, from 1; 0 for lanes that are not shown.
  int thread(LaneId lane) const { return threads_[lane.value]; }
  /// The threads' names tell apart several links of one kind.
  std::string thread_name(LaneId lane) const;
  bool shows(TaskId id) const;
  /// The tasks shown, by start; tasks that start together in the order of the graph, so that a
  /// message's sender never comes after its receiver.
  std::vector<TaskId> tasks() const;
  /// The memory levels shown of a rank. A viewer draws the last value for ever, so they end with
  /// the level that stays at the end of the run or window; a window begins with the level it finds.
  std::vector<MemoryLevel> samples(Rank rank) const;
  /// False when no size is known, so that the counters show tapes.
  bool counts_bytes() const;

 private:
  void number_threads();
  void show_ranks();

  const TaskGraph& graph_;
  const Timeline& timeline_;
  const ChromeTraceOptions& options_;
  std::vector<bool> shown_ranks_;
  std::vector<int> threads_;
};

}  // namespace unlatch
