// Numerics: a schedule run on the scalar chain by the threaded executor, every weight recorded.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "exec/cpu_backend.h"
#include "exec/scalar_chain.h"
#include "exec/stage_runner.h"
#include "models/gradient_clip.h"
#include "models/partition.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// What the chain computes with; one x and y a micro-batch of the whole run.
struct ChainProblem {
  std::vector<double> weights = {};  ///< initial, w_0 first; at least one a stage
  Activation activation = Activation::tanh;
  std::vector<double> x = {};
  std::vector<double> y = {};
  double rate = 0.1;
  models::OptimizerSpec optimizer = {};
  std::optional<models::GradientClip> clip = {};
};

struct ChainResult {
  /// [weight][update]: after 0, 1, 2, .. updates of its stage.
  std::vector<std::vector<double>> weights_by_update;
  std::vector<double> losses;  ///< one a micro-batch, from the last stage's forward
  std::vector<double> final;   ///< newest value of each weight
  /// [stage]: newest parameters of its local head; empty where gradients come from the next stage.
  std::vector<std::vector<double>> heads = {};
};

/// A chain with everything that runs a graph on it. Consecutive weights go on a stage, sizes
/// differing by at most 1, larger first.
class ChainRun {
 public:
  /// Both must outlive it. Throws Error when the lists do not fit the graph's shape.
  ChainRun(const TaskGraph& graph, const ChainProblem& problem);

  StageRunner& runner() { return *runner_; }
  /// Of the tasks that have run.
  ChainResult result() const;

 private:
  Observer observer();

  const TaskGraph& graph_;
  std::vector<models::StageRange> ranges_;
  std::vector<std::unique_ptr<StageModule>> stages_;
  std::vector<std::unique_ptr<LocalHead>> heads_;
  ScalarFeed feed_;
  ChainResult seen_;
  std::unique_ptr<StageRunner> runner_;
};

/// Runs the graph on a CpuBackend. Throws what ChainRun does.
ChainResult run_chain(const TaskGraph& graph, const ChainProblem& problem,
                      const CpuOptions& options = {});

/// x(n) = sin(n+1), y(n) = 0.5 cos(n): the data of the golden traces.
void fill_with_golden_data(ChainProblem& problem, int micro_batches);

}  // namespace unlatch::exec
