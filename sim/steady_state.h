// Steady state: the time a batch takes far from the start and the drain of a run.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sim/stage_costs.h"

namespace unlatch::sim {

struct SteadyState {
  double batch_period_ns = 0;
  int cycle = 1;      ///< batches after which every time repeats, shifted
  bool exact = true;  ///< false: a mean, because costs are random or nothing repeated in time
  int batches = 0;    ///< that were simulated to find it
};

/// Makes the graph of a schedule for a number of batches, transfers included.
using GraphOfBatches = std::function<TaskGraph(int batches)>;

/// For fixed costs: simulates ever longer runs until the times of all tasks repeat with a cycle of
/// c batches, and reports (e(b+c)-e(b))/c, e(b) being the end of batch b. Gives up after about a
/// million tasks and then reports the mean over the later half; where 32 million tasks are still
/// too few for the longest wait, the work of the busiest lane in a batch.
SteadyState steady_state(const GraphOfBatches& graph_of, const CostModel& costs);

/// The same from one run of a graph that cannot be made longer (a schedule file): exact where its
/// batches already repeat.
SteadyState steady_state_of(const TaskGraph& graph, const Timeline& timeline);

/// For random costs: (e(b1)-e(b0))/(b1-b0), b0 a tenth of the batches behind the first `done`, b1
/// the last before the drain.
SteadyState mean_period(const TaskGraph& graph, const Timeline& timeline, int done = 0);

/// e(b): end of the last U of each batch over all stages, of its last B or W if it has no U. Where
/// a server takes the updates of C copies one by one, batch b means the updates b C to b C + C - 1.
std::vector<nanoseconds> batch_ends(const TaskGraph& graph, const Timeline& timeline);

/// What the figures beside the period compare with.
struct BatchWork {
  nanoseconds compute{0};    ///< M sum (F + B) over the stages, slow ranks and shares included
  nanoseconds transfers{0};  ///< M sum of all transfers
  nanoseconds bp{0};  ///< time of a batch under BP on the same ranks, without random stragglers
  int ranks = 1;

  /// BP's time for a batch over the period (null for 0).
  std::optional<double> speedup_over_bp(const SteadyState& steady) const;
  /// Share of the ranks' time that F and B fill; recompute is no useful work (null for 0).
  std::optional<double> utilization(const SteadyState& steady) const;
};

/// Work of one batch of `graph`, whose micro-batches cost `times`; slow[rank] stretches compute.
BatchWork batch_work(const TaskGraph& graph, const StageTimes& times, std::span<const double> slow);

}  // namespace unlatch::sim
