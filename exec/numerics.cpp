#include "exec/numerics.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "exec/executor.h"
#include "exec/scalar_heads.h"
#include "exec/stage_runner.h"
#include "models/partition.h"
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

ChainResult run_chain(const TaskGraph& graph, const ChainProblem& problem,
                      const CpuOptions& options) {
  require_lists_fit(graph, problem);
  const auto ranges = models::uniform_partition(static_cast<int>(problem.weights.size()),
                                                graph.shape().stages_a_copy());
  std::vector<int> sizes;
  for (const models::StageRange& range : ranges) sizes.push_back(range.layers());
  std::vector<std::unique_ptr<StageModule>> owned;
  for (int copy = 0; copy < graph.shape().copies; ++copy) {
    std::ranges::move(
        scalar_chain_stages(problem.weights, sizes, problem.activation, problem.optimizer),
        std::back_inserter(owned));
  }
  std::vector<StageModule*> modules;
  for (const auto& module : owned) modules.push_back(module.get());

  ChainResult result;
  for (const double weight : problem.weights) result.weights_by_update.push_back({weight});
  result.losses.resize(graph.shape().all_micro_batches());
  const Observer observer{
      .loss = [&](MicroBatch i, const Loss& loss) { result.losses[i.value] = loss.loss; },
      .update =
          [&](Stage k, int, const Tensor& weights) {
            if (graph.shape().copy_of(k) > 0) return;
            for (int j = 0; j < ranges[k.value].layers(); ++j) {
              result.weights_by_update[ranges[k.value].first + j].push_back(
                  weights.as<double>()[j]);
            }
          }};
  ScalarFeed feed(problem.x, problem.y);
  const auto heads = scalar_heads(graph, problem.optimizer);
  std::vector<LocalHead*> lent;
  for (const auto& head : heads) lent.push_back(head.get());
  StageRunner runner(
      graph, modules, feed, [&](int) { return problem.rate; }, observer, lent, problem.clip);
  CpuBackend backend(graph, runner, options);
  run(graph, backend);
  for (const Stage k : up_to<Stage>(graph.shape().stages_a_copy())) {
    std::ranges::copy(runner.weights(k).as<double>(), std::back_inserter(result.final));
  }
  for (const auto& head : heads) {
    if (head != nullptr) result.heads.push_back(head->parameters());
  }
  return result;
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
