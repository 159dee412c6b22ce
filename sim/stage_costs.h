// StageCosts: fixed times per stage and boundary, as the cost flags of the command line give them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/transfers.h"
#include "sim/cost_model.h"
#include "sim/traffic.h"

namespace unlatch::sim {

/// The values of the cost flags as typed: one value for all stages (boundaries) or a list.
struct CostSettings {
  using Text = std::optional<std::string>;  ///< empty where the flag was not given
  Text forward{}, backward{}, input_grad{}, weight_grad{}, recompute{}, update{};
  Text transfer{}, activation_transfer{}, gradient_transfer{}, all_reduce{}, push{}, pull{};
  Text overlap{};
  /// What messages call a flag, such as "forward": "--forward", or the line of a file that gave it.
  std::function<std::string(std::string_view flag)> place = [](std::string_view flag) {
    return "--" + std::string(flag);
  };
};

/// Times of one micro-batch on each stage; transfers on each boundary (stages - 1 of them).
struct StageTimes {
  std::vector<nanoseconds> forward, backward, backward_input, backward_weight, recompute, update;
  std::vector<nanoseconds> activation_transfer, gradient_transfer;
  std::vector<double> overlap;               ///< W of the rank of each stage, 0..1
  std::vector<nanoseconds> all_reduce = {};  ///< of each stage's gradient or weights; empty: 0
  std::vector<nanoseconds> push = {};        ///< of each stage's gradients to its server; empty: 0
  std::vector<nanoseconds> pull = {};        ///< of its weights from there; empty: 0
  int workers = 0;                           ///< see CostModel::workers()

  int stages() const { return static_cast<int>(forward.size()); }
  /// For a schedule that runs `parts` micro-batches in one piece: everything but the update, which
  /// a batch has once either way, costs that many times as much.
  StageTimes in_one_piece(int parts) const;
  /// For a graph with that many copies of the stages.
  StageTimes for_copies(int copies) const;
  /// The work of stage k as in `other`, which has as many stages; transfers stay.
  void take_stage(int k, const StageTimes& other);
};

/// Contract, "Workload (a)": F=1 ms, B=2F, I=W=B/2, R=F, U=0, transfers 0, W=1 where not given.
/// Throws Error for values that contradict each other or lists of another length.
StageTimes stage_times(const CostSettings& settings, int stages);

/// The cost model of these times.
class StageCosts final : public CostModel {
 public:
  explicit StageCosts(StageTimes times, std::shared_ptr<const Traffic> traffic = nullptr);

  nanoseconds duration(const Task& task) const override { return table_.at(task.op, task.stage); }
  double overlap(Stage k) const override { return times_.overlap[k.value]; }
  const CostTable* table() const override { return &table_; }
  int workers() const override { return times_.workers; }
  const Traffic* traffic() const override { return traffic_.get(); }

  const StageTimes& times() const& { return times_; }
  /// Boundaries and servers whose transfer takes time, for with_transfers().
  Links links() const;

 private:
  StageTimes times_;
  CostTable table_;
  std::shared_ptr<const Traffic> traffic_;
};

}  // namespace unlatch::sim
