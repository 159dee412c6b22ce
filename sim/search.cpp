#include "sim/search.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "schedules/error.h"
#include "sim/parallel.h"
#include "sim/simulator.h"
#include "sim/steady_state.h"
#include "sim/time_order.h"
#include "sim/units.h"

namespace unlatch::sim {
namespace {

int largest(const std::vector<int>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

/// What a method promises for the steady state, however many batches the run has.
Promise endless_promise(const Candidate& candidate) {
  Shape shape = candidate.shape;
  constexpr int endless = 1 << 30;
  if (!candidate.spec.method().synchronous) shape.batches = endless;
  return candidate.spec.promise(shape);
}

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

/// The graphs of one schedule with its transfers, by their number of batches, made once.
class Graphs {
 public:
  Graphs(const Candidate& candidate) : candidate_(candidate) {}

  const TaskGraph& of(int batches, const Links& links) {
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

 private:
  const Candidate& candidate_;
  Links links_;
  std::map<int, TaskGraph> graphs_;
};

/// One simulated split.
struct Run {
  SplitScore score;
  Rank worst;  ///< the rank that keeps most
};

/// One candidate on one placing.
class Trial {
 public:
  Trial(const Candidate& candidate, const Placing& placing, const TaskGraph& tasks,
        const SearchLimits& limits)
      : candidate_(candidate),
        limits_(limits),
        costs_(placing.costs(tasks)),
        sums_(costs_.layers, pipeline_facts(tasks, costs_)),
        graphs_(candidate) {}

  SplitAnswer best() {
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

  Run run(const Split& split) {
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

  /// Adds what only the best split needs.
  void describe(const Split& split, Finding& finding) {
    const SplitCosts split_costs = costs_.of(split);
    const StageCosts costs(split_costs.times, split_costs.traffic);
    const TaskGraph& graph = graphs_.of(candidate_.shape.batches, costs.links());
    const Timeline timeline = sim::run(graph, costs);
    const Metrics of_run = metrics(graph, timeline);
    const std::vector<double> all_alike(static_cast<std::size_t>(graph.ranks()), 1.0);
    const SteadyState period = steady(costs);
    finding.utilization = batch_work(graph, costs.times(), all_alike).utilization(period);
    finding.time = batch_time(graph, timeline, of_run, period.batch_period_ns);
  }

 private:
  SteadyState steady(const StageCosts& costs) {
    const Links links = costs.links();
    return steady_state([&](int batches) { return graphs_.of(batches, links); }, costs);
  }

  const Candidate& candidate_;
  const SearchLimits& limits_;
  LayerCosts costs_;
  StageSums sums_;
  Graphs graphs_;
};

std::string memory_reason(const Finding& finding, Rank worst, std::int64_t limit) {
  return fmt::format(
      "of {} split{} simulated the one that needs least, {}, needs {} on rank {}; the limit is {}",
      finding.simulated, finding.simulated == 1 ? "" : "s", text_of(finding.split.split),
      format_size(finding.split.score.peak_bytes), worst.value, format_size(limit));
}

/// The best placing of a schedule whose graph is made.
void find_placing(const Candidate& candidate, const TaskGraph& tasks, const SearchLimits& limits,
                  Finding& finding) {
  std::unique_ptr<Trial> best;
  for (std::size_t p = 0; p < candidate.placings.size(); ++p) {
    finding.refused = Refusal::costs;
    auto trial = std::make_unique<Trial>(candidate, candidate.placings[p], tasks, limits);
    finding.refused = Refusal::shape;
    SplitAnswer answer = trial->best();
    finding.simulated += answer.simulated;
    if (best && !(answer.score < finding.split.score)) continue;
    best = std::move(trial);
    finding.placing = p;
    finding.split = std::move(answer);
  }
  const SplitScore& score = finding.split.score;
  if (score.excess_bytes > 0) {
    finding.refused = Refusal::memory;
    finding.reason = memory_reason(finding, best->run(finding.split.split).worst, *limits.memory);
    return;
  }
  finding.refused.reset();
  finding.price.period_ns = score.period_ns;
  finding.price.peak_bytes = score.peak_bytes;
  best->describe(finding.split.split, finding);
}

/// Throws Error where `finding.refused` is what to call it.
void try_out(const Candidate& candidate, const SearchLimits& limits, Finding& finding) {
  finding.refused = Refusal::shape;
  require(candidate.impossible.empty(), "{}", candidate.impossible);
  finding.shape = candidate.spec.effective(candidate.shape);
  finding.options = candidate.spec.options(candidate.shape);
  const Schedule schedule = candidate.spec.make(candidate.shape);
  require(!awaits_order(schedule),
          "{}: its server's order follows from the times, which a search does not try; see "
          "'unlatch compare'",
          candidate.spec.text());
  const Promise promise = endless_promise(candidate);
  finding.price.staleness = largest(promise.forward_staleness);
  finding.weight_staleness = largest(promise.weight_staleness);
  if (limits.staleness && finding.price.staleness > *limits.staleness) {
    finding.refused = Refusal::staleness;
    fail("forward staleness {}, the limit is {}", finding.price.staleness, *limits.staleness);
  }
  find_placing(candidate, schedule.build(), limits, finding);
}

}  // namespace

std::string_view name(Refusal refusal) {
  switch (refusal) {
    case Refusal::shape:
      return "shapes that a schedule cannot run";
    case Refusal::costs:
      return "without costs or places";
    case Refusal::memory:
      return "over the memory limit";
    case Refusal::staleness:
      return "staler than allowed";
  }
  return "";
}

std::vector<Finding> search(const std::vector<Candidate>& candidates, const SearchLimits& limits) {
  std::vector<Finding> findings(candidates.size());
  in_parallel(static_cast<int>(candidates.size()), [&](int c) {
    const auto at = static_cast<std::size_t>(c);
    try {
      try_out(candidates[at], limits, findings[at]);
    } catch (const Error& error) {
      findings[at].reason = error.what();
    }
  });
  const std::vector<std::size_t> ranked = ranking(findings);
  std::vector<Price> prices;
  for (const std::size_t f : ranked) prices.push_back(findings[f].price);
  const std::vector<bool> front = pareto_front(prices);
  for (std::size_t place = 0; place < ranked.size(); ++place) {
    findings[ranked[place]].on_front = front[place];
  }
  return findings;
}

std::vector<std::size_t> ranking(const std::vector<Finding>& findings) {
  std::vector<std::size_t> ranked;
  for (std::size_t f = 0; f < findings.size(); ++f) {
    if (!findings[f].refused) ranked.push_back(f);
  }
  std::ranges::stable_sort(ranked, {}, [&](std::size_t f) {
    const Price& price = findings[f].price;
    return std::tuple(price.period_ns, price.peak_bytes, price.staleness);
  });
  return ranked;
}

}  // namespace unlatch::sim
