// diff: predicted against measured, kind by kind and rank by rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/task_list.h"

namespace unlatch {

/// Time predicted and measured for one group of tasks.
struct Difference {
  nanoseconds predicted{0};
  nanoseconds measured{0};
  int tasks = 0;
  /// measured / predicted; nothing when no time was predicted.
  std::optional<double> ratio() const;
};

struct KindDifference : Difference {
  std::string kind;
};

/// The rank's own work: F, B, I, W, R and U, no messages, collectives or waiting.
struct RankDifference : Difference {
  int rank = 0;
};

struct Diff {
  std::vector<KindDifference> by_kind;  ///< in the order F, B, I, W, R, U, then by name
  std::vector<RankDifference> by_rank;
  Difference makespan;  ///< from the first start to the last end
  /// The rank whose own work took longest against its prediction (largest ratio, ties to the
  /// lowest); nothing when no rank was slower than predicted. Waiting for others does not count, so
  /// a barrier cannot hide the culprit or blame the ranks that wait.
  std::optional<int> culprit_rank;
  /// Largest |measured / predicted - 1| of all kinds, ranks and the makespan: what --tolerance
  /// limits. A group without predicted time counts by its share of all predicted time.
  double worst_deviation = 0;
  std::string worst;  ///< what that is, "kind F", "rank 2", "makespan"; "" when nothing deviates
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// Which time stands for a kind or rank: all of its tasks, or the median one (robust against the
/// first iterations).
enum class Statistic { sum, median };

/// Compares two runs of the same tasks. Kinds of messages that only one side has at all are left
/// out with a note (a transfer of no length is no task). Throws Error that names the first tasks
/// that the other side lacks, or that a side holds twice.
Diff diff(const TaskList& predicted, const TaskList& measured,
          Statistic statistic = Statistic::sum);

}  // namespace unlatch
