// Trial: one candidate of a search on one placing, split by split.
#pragma once

#include <map>

#include "schedules/transfers.h"
#include "sim/search.h"
#include "sim/steady_state.h"

namespace unlatch::sim {

/// The graphs of one schedule with its transfers, by their number of batches, made once.
class Graphs {
 public:
  explicit Graphs(const Candidate& candidate) : candidate_(candidate) {}
  const TaskGraph& of(int batches, const Links& links);

 private:
  const Candidate& candidate_;
  Links links_;
  std::map<int, TaskGraph> graphs_;
};

/// What is given to it must outlive it.
class Trial {
 public:
  /// Throws Error where the placing has no costs for the graph, which is one without transfers.
  Trial(const Candidate& candidate, const Placing& placing, const TaskGraph& tasks,
        const SearchLimits& limits);

  SplitAnswer best();

  struct Run {
    SplitScore score;
    Rank worst;  ///< the rank that keeps most
  };
  Run run(const Split& split);
  /// Adds what only the best split needs: utilization and time.
  void describe(const Split& split, Finding& finding);

 private:
  SteadyState steady(const StageCosts& costs);

  const Candidate& candidate_;
  const SearchLimits& limits_;
  LayerCosts costs_;
  StageSums sums_;
  Graphs graphs_;
};

}  // namespace unlatch::sim
