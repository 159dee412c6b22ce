#include "sim/trial.h"

#include <algorithm>
#include <limits>

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

std::vector<std::int64_t> room_of(const Placing& placing, const TaskGraph& tasks,
                                  const SearchLimits& limits) {
  if (!limits.memory) return placing.room;
  return std::vector<std::int64_t>(static_cast<std::size_t>(tasks.ranks()), *limits.memory);
}

PipelineFacts pipeline_facts(const Graphs& graphs, const LayerCosts& costs,
                             const std::vector<std::int64_t>& room) {
  const TaskGraph& tasks = graphs.tasks();
  const Shape& shape = tasks.shape();
  const auto ranks = static_cast<std::size_t>(tasks.ranks());
  PipelineFacts facts{.stages = {},
                      .ranks = std::vector<std::vector<int>>(ranks),
                      .rank_kinds = std::vector<int>(ranks),
                      .micro_batches = shape.micro_batches / shape.copies};
  const std::vector<double> recomputed = recomputed_shares(tasks, costs.overlap);
  for (const Stage k : up_to<Stage>(shape.stages_a_copy())) {
    const auto at = static_cast<std::size_t>(k.value);
    facts.stages.push_back({.recomputed = recomputed[at],
                            .holdings = graphs.holdings()[at],
                            .to_next = at < costs.ways.size() ? costs.ways[at] : Way{},
                            .kinds = {}});
  }
  for (const Stage k : up_to<Stage>(shape.stages)) {
    const auto rank = static_cast<std::size_t>(tasks.rank_of(k).value);
    const int model_stage = shape.model_stage(k).value;
    facts.ranks[rank].push_back(model_stage);
    StageFacts& stage = facts.stages[static_cast<std::size_t>(model_stage)];
    const int kind = costs.kinds.empty() ? 0 : costs.kinds[static_cast<std::size_t>(k.value)];
    facts.rank_kinds[rank] = kind;
    if (std::ranges::find(stage.kinds, kind) == stage.kinds.end()) stage.kinds.push_back(kind);
    if (!room.empty()) stage.room = std::min(stage.room.value_or(room[rank]), room[rank]);
  }
  return facts;
}

}  // namespace

Graphs::Graphs(const Candidate& candidate, const TaskGraph& tasks)
    : candidate_(candidate), tasks_(tasks), holdings_(holdings_by_stage(tasks)) {}

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

std::int64_t Graphs::size() const {
  std::int64_t tasks = 0;
  for (const auto& [batches, graph] : graphs_) tasks += graph.size();
  return tasks;
}

Trial::Trial(const Candidate& candidate, const Placing& placing, Graphs& graphs,
             const SearchLimits& limits)
    : candidate_(candidate),
      graphs_(graphs),
      room_(room_of(placing, graphs.tasks(), limits)),
      costs_(placing.costs(graphs.tasks())),
      sums_(costs_.layers, pipeline_facts(graphs, costs_, room_)) {}

SplitAnswer Trial::best(int most, std::optional<double> bound) {
  if (costs_.given) return quick({});
  return best_split(sums_, {.bound = bound, .floor_holds = costs_.floor_holds, .most = most},
                    [this](const Split& split) { return run(split).score; });
}

SplitAnswer Trial::quick(const std::optional<Split>& other) {
  if (costs_.given) {
    return {.split = *costs_.given,
            .score = run(*costs_.given).score,
            .simulated = 1,
            .all = false,
            .sums = {}};
  }
  const std::optional<Split> fastest = fastest_split(sums_);
  SplitAnswer answer{.split = fastest ? *fastest : smallest_split(sums_), .score = {}};
  answer.score = run(answer.split).score;
  answer.simulated = 1;
  answer.sums = fastest;
  if (!other || *other == answer.split) return answer;
  const SplitScore score = run(*other).score;
  ++answer.simulated;
  if (score < answer.score) {
    answer.split = *other;
    answer.score = score;
  }
  return answer;
}

const Trial::Run& Trial::run(const Split& split) {
  const auto [entry, is_new] = runs_.try_emplace(text_of(split));
  if (is_new) entry->second = simulate(split);
  return entry->second;
}

Trial::Run Trial::simulate(const Split& split) {
  const SplitCosts split_costs = costs_.of(split);
  const StageCosts costs(split_costs.times, split_costs.traffic);
  const TaskGraph& graph = graphs_.of(candidate_.shape.batches, costs.links());
  const std::vector<RankMemory> ranks = memory(graph, sim::run(graph, costs), split_costs.sizes);
  Run result{.score = {.period_ns = steady(costs).batch_period_ns}, .worst = {}};
  std::int64_t most_over = std::numeric_limits<std::int64_t>::min();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::int64_t kept = ranks[r].peak.bytes, room = room_.empty() ? 0 : room_[r];
    result.score.peak_bytes = std::max(result.score.peak_bytes, kept);
    if (kept - room <= most_over) continue;
    most_over = kept - room;
    result.worst = {static_cast<std::int32_t>(r)};
    result.kept = kept;
    result.limit = room;
  }
  if (!room_.empty()) result.score.excess_bytes = std::max<std::int64_t>(0, most_over);
  return result;
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
