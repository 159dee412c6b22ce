// Trial: one candidate of a search on one placing, split by split.
#pragma once

#include <map>
#include <string>

#include "schedules/transfers.h"
#include "sim/search.h"
#include "sim/steady_state.h"

namespace unlatch::sim {

/// What all placings of a candidate have in common: its graphs with transfers, by their number of
/// batches, made once, and what is kept of its stages.
class Graphs {
 public:
  /// `tasks` is the graph without transfers. Both must outlive it.
  Graphs(const Candidate& candidate, const TaskGraph& tasks);

  const TaskGraph& tasks() const { return tasks_; }
  const std::vector<std::vector<Holding>>& holdings() const { return holdings_; }
  const TaskGraph& of(int batches, const Links& links);
  /// Tasks of all graphs that were asked for: about those of one simulation.
  std::int64_t size() const;

 private:
  const Candidate& candidate_;
  const TaskGraph& tasks_;
  std::vector<std::vector<Holding>> holdings_;
  Links links_;
  std::map<int, TaskGraph> graphs_;
};

/// What is given to it must outlive it.
class Trial {
 public:
  /// Throws Error where the placing has no costs for the graph.
  Trial(const Candidate& candidate, const Placing& placing, Graphs& graphs,
        const SearchLimits& limits);

  /// Looks for a split that is faster than `bound`, in ns, with about `most` simulations.
  SplitAnswer best(int most, std::optional<double> bound = {});
  /// The split whose slowest stage is fastest, or the smallest one where none fits: simulated, and
  /// better than `other` where that can be.
  SplitAnswer quick(const std::optional<Split>& other);
  /// ns that no split is faster than; 0 where that is not known.
  double least_floor() const { return costs_.floor_holds ? sums_.least_floor() : 0; }

  struct Run {
    SplitScore score;
    Rank worst;              ///< the rank that is furthest above its limit, or keeps most
    std::int64_t kept = 0;   ///< by that rank, in bytes
    std::int64_t limit = 0;  ///< of that rank, where it has one
  };
  /// Each split is simulated once.
  const Run& run(const Split& split);
  int simulated() const { return static_cast<int>(runs_.size()); }
  /// Adds what only the best split needs: utilization and time.
  void describe(const Split& split, Finding& finding);

 private:
  Run simulate(const Split& split);
  SteadyState steady(const StageCosts& costs);

  const Candidate& candidate_;
  Graphs& graphs_;
  std::vector<std::int64_t> room_;  ///< by rank; empty: any
  LayerCosts costs_;
  StageSums sums_;
  std::map<std::string, Run> runs_;
};

}  // namespace unlatch::sim
