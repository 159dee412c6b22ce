// CostModel: how long a task takes; the seam between the simulator and everything it can simulate.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/graph.h"
#include "traces/timeline.h"

namespace unlatch::sim {

class Traffic;
struct Pauses;

/// Durations that depend on the kind of task and its stage only.
class CostTable {
 public:
  static constexpr int ops = static_cast<int>(Op::barrier) + 1;
  explicit CostTable(int stages) : stages_(stages), ns_(std::size_t(ops) * stages, 0) {}

  int stages() const { return stages_; }
  void set(Op op, Stage k, nanoseconds t) { ns_[place(op, k)] = t.count(); }
  nanoseconds at(Op op, Stage k) const { return nanoseconds(ns_[place(op, k)]); }

 private:
  std::size_t place(Op op, Stage k) const {
    return static_cast<std::size_t>(op) * stages_ + k.value;
  }
  int stages_;
  std::vector<std::int64_t> ns_;  ///< [op][stage]
};

/// Durations of tasks. Implementations are immutable while a simulation runs.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// Length of one task, also of R alone; 0 for hidden tasks.
  virtual nanoseconds duration(const Task& task) const = 0;
  /// W of the contract's --overlap for the rank of this stage: 1 hides the shorter of F and R
  /// beside each other, 0 runs them one after the other.
  virtual double overlap(Stage) const { return 1.0; }
  /// The same durations as a table where they depend on nothing else, else null. The simulator
  /// asks once a run and then reads the table, which saves a virtual call a task.
  virtual const CostTable* table() const { return nullptr; }
  /// Worker threads with a core each that all lanes of F, B, R and U share; 0: one for every lane.
  virtual int workers() const { return 0; }
  /// Transfers whose time depends on what else is on the links; null where costs say it all.
  virtual const Traffic* traffic() const { return nullptr; }
  /// When lanes of the graph that these costs are for stand still; null where none does.
  virtual const Pauses* pauses() const { return nullptr; }
};

}  // namespace unlatch::sim
