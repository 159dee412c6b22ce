#include "exec/numerics.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "exec/executor.h"
#include "exec/scalar_heads.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

void require_lists_fit(const TaskGraph& graph, const ChainProblem& problem) {
  const int stages = graph.shape().stages_a_copy();
  const auto wanted = static_cast<std::size_t>(graph.shape().all_micro_batches());
  require(static_cast<int>(problem.weights.size()) >= stages,
          "a chain of {} weights cannot be cut into {} stages; give at least one weight a stage",
          problem.weights.size(), stages);
  require(problem.x.size() == wanted && problem.y.size() == wanted,
          "{} batches of {} micro-batches need {} values of x and y; {} and {} were given",
          graph.shape().batches, graph.shape().micro_batches, wanted, problem.x.size(),
          problem.y.size());
}

}  // namespace

ChainRun::ChainRun(const TaskGraph& graph, const ChainProblem& problem)
    : graph_(graph), heads_(scalar_heads(graph, problem.optimizer)), feed_(problem.x, problem.y) {
  require_lists_fit(graph, problem);
  ranges_ = models::uniform_partition(static_cast<int>(problem.weights.size()),
                                      graph.shape().stages_a_copy());
  std::vector<int> sizes;
  for (const models::StageRange& range : ranges_) sizes.push_back(range.layers());
  for (int copy = 0; copy < graph.shape().copies; ++copy) {
    std::ranges::move(
        scalar_chain_stages(problem.weights, sizes, problem.activation, problem.optimizer),
        std::back_inserter(stages_));
  }
  std::vector<StageModule*> modules;
  for (const auto& module : stages_) modules.push_back(module.get());
  std::vector<LocalHead*> lent;
  for (const auto& head : heads_) lent.push_back(head.get());
  for (const double weight : problem.weights) seen_.weights_by_update.push_back({weight});
  seen_.losses.resize(graph.shape().all_micro_batches());
  runner_ = std::make_unique<StageRunner>(
      graph, modules, feed_, [rate = problem.rate](int) { return rate; }, observer(), lent,
      StatisticUpdates::forward, problem.clip);
}

Observer ChainRun::observer() {
  return {.loss = [this](MicroBatch i, const Loss& loss) { seen_.losses[i.value] = loss.loss; },
          .update =
              [this](Stage k, int, const Tensor& weights) {
                if (graph_.shape().copy_of(k) > 0) return;
                for (int j = 0; j < ranges_[k.value].layers(); ++j) {
                  seen_.weights_by_update[ranges_[k.value].first + j].push_back(
                      weights.as<double>()[j]);
                }
              }};
}

ChainResult ChainRun::result() const {
  ChainResult result = seen_;
  for (const Stage k : up_to<Stage>(graph_.shape().stages_a_copy())) {
    std::ranges::copy(runner_->weights(k).as<double>(), std::back_inserter(result.final));
  }
  for (const auto& head : heads_) {
    if (head != nullptr) result.heads.push_back(head->parameters());
  }
  return result;
}

ChainResult run_chain(const TaskGraph& graph, const ChainProblem& problem,
                      const CpuOptions& options) {
  ChainRun chain(graph, problem);
  CpuBackend backend(graph, chain.runner(), options);
  run(graph, backend);
  return chain.result();
}

void fill_with_golden_data(ChainProblem& problem, int micro_batches) {
  problem.x.clear();
  problem.y.clear();
  for (int n = 0; n < micro_batches; ++n) {
    problem.x.push_back(std::sin(n + 1));
    problem.y.push_back(0.5 * std::cos(n));
  }
}

}  // namespace unlatch::exec
