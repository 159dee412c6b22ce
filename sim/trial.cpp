#include "sim/trial.h"

#include <algorithm>

#include "sim/simulator.h"

namespace unlatch::sim {
namespace {

/// Of each stage of the model, the share of its micro-batches whose R takes time of its own.
std::vector<double> recomputed_shares(const TaskGraph& graph, double overlap) {
  const auto stages = static_cast<std::size_t>(graph.shape().stages_a_copy());
  std::vector<double> forwards(stages, 0.0), recomputes(stages, 0.0);
  for (const Task& task : graph.tasks()) {
    const auto at = static_cast<std::size_t>(graph.shape().model_stage(task.stage).value);
    if (task.op == Op::forward) ++forwards[at];
    if (task.op != Op::recompute) continue;
    const bool beside = graph.lane(task).engine == Engine::recompute;
    recomputes[at] += beside ? 1 - overlap : 1;
  }
  for (std::size_t k = 0; k < stages; ++k) recomputes[k] /= std::max(forwards[k], 1.0);
  return recomputes;
}

PipelineFacts pipeline_facts(const TaskGraph& tasks, const LayerCosts& costs) {
  const Shape& shape = tasks.shape();
  PipelineFacts facts{.stages = {},
                      .ranks = std::vector<std::vector<int>>(std::size_t(tasks.ranks())),
                      .micro_batches = shape.micro_batches / shape.copies};
  const std::vector<double> recomputed = recomputed_shares(tasks, costs.overlap);
  const auto holdings = holdings_by_stage(tasks);
  for (const Stage k : up_to<Stage>(shape.stages_a_copy())) {
    const auto at = static_cast<std::size_t>(k.value);
    facts.stages.push_back({.recomputed = recomputed[at],
                            .holdings = holdings[at],
                            .to_next = at < costs.ways.size() ? costs.ways[at] : Way{}});
  }
  for (const Stage k : up_to<Stage>(shape.stages)) {
    const auto rank = static_cast<std::size_t>(tasks.rank_of(k).value);
    facts.ranks[rank].push_back(shape.model_stage(k).value);
  }
  return facts;
}

}  // namespace

const TaskGraph& Graphs::of(int batches, const Links& links) {
  if (links.activation != links_.activation || links.gradient != links_.gradient) {
    graphs_.clear();
    links_ = links;
  }
  const auto found = graphs_.find(batches);
  if (found != graphs_.end()) return found->second;
  Shape shape = candidate_.shape;
  shape.batches = batches;
  const TaskGraph tasks = candidate_.spec.make(shape).build();
  return graphs_.emplace(batches, with_transfers(tasks, links)).first->second;
}

Trial::Trial(const Candidate& candidate, const Placing& placing, const TaskGraph& tasks,
             const SearchLimits& limits)
    : candidate_(candidate),
      limits_(limits),
      costs_(placing.costs(tasks)),
      sums_(costs_.layers, pipeline_facts(tasks, costs_)),
      graphs_(candidate) {}

SplitAnswer Trial::best() {
  const auto simulate = [this](const Split& split) { return run(split).score; };
  if (!costs_.given) {
    return best_split(
        sums_,
        {.memory = limits_.memory, .floor_holds = costs_.floor_holds, .most = limits_.splits},
        simulate);
  }
  SplitAnswer answer{.split = *costs_.given, .score = {}, .simulated = 1, .sums = {}};
  answer.score = simulate(answer.split);
  return answer;
}

Trial::Run Trial::run(const Split& split) {
  const SplitCosts split_costs = costs_.of(split);
  const StageCosts costs(split_costs.times, split_costs.traffic);
  const TaskGraph& graph = graphs_.of(candidate_.shape.batches, costs.links());
  const std::vector<RankMemory> ranks = memory(graph, sim::run(graph, costs), split_costs.sizes);
  const auto worst =
      std::ranges::max_element(ranks, {}, [](const RankMemory& rank) { return rank.peak.bytes; });
  const std::int64_t peak = worst->peak.bytes;
  return {.score = {.excess_bytes =
                        limits_.memory ? std::max<std::int64_t>(0, peak - *limits_.memory) : 0,
                    .period_ns = steady(costs).batch_period_ns,
                    .peak_bytes = peak},
          .worst = {static_cast<std::int32_t>(worst - ranks.begin())}};
}

void Trial::describe(const Split& split, Finding& finding) {
  const SplitCosts split_costs = costs_.of(split);
  const StageCosts costs(split_costs.times, split_costs.traffic);
  const TaskGraph& graph = graphs_.of(candidate_.shape.batches, costs.links());
  const Timeline timeline = sim::run(graph, costs);
  const std::vector<double> all_alike(static_cast<std::size_t>(graph.ranks()), 1.0);
  const SteadyState period = steady(costs);
  finding.utilization = batch_work(graph, costs.times(), all_alike).utilization(period);
  finding.time = batch_time(graph, timeline, metrics(graph, timeline), period.batch_period_ns);
}

SteadyState Trial::steady(const StageCosts& costs) {
  const Links links = costs.links();
  return steady_state([&](int batches) { return graphs_.of(batches, links); }, costs);
}

}  // namespace unlatch::sim
