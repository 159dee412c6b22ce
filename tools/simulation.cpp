#include "tools/simulation.h"

#include <algorithm>

#include "files/blocking_sends.h"
#include "files/message_order.h"
#include "files/repeat.h"
#include "schedules/error.h"
#include "sim/simulator.h"
#include "sim/time_order.h"
#include "sim/units.h"
#include "tools/bp_costs.h"
#include "tools/disturbed_runs.h"

namespace unlatch::tools {
namespace {

/// Where ranks wait for their messages, those count that take no time, too.
Links links_of(const Schedule& schedule, const sim::StageCosts& costs, const Workload& workload) {
  Links links = costs.links();
  links.one_queue_a_rank = workload.one_send_engine;
  if (workload.sends == files::Sends::buffered) return links;
  const Shape& shape = schedule.shape();
  for (const Stage k : up_to<Stage>(shape.stages - 1)) {
    links.activation[static_cast<std::size_t>(k.value)] = !shape.is_last(k);
    links.gradient[static_cast<std::size_t>(k.value)] = !shape.is_last(k);
  }
  return links;
}

/// The graph as it is where sends are buffered.
TaskGraph with_blocking(TaskGraph graph, const Schedule& schedule, const Workload& workload) {
  if (workload.sends == files::Sends::buffered) return graph;
  const files::ActionTable table = workload.own_messages
                                       ? files::repeated(*workload.own_messages, schedule.shape())
                                       : files::with_messages_in_order(schedule);
  return files::with_blocking_sends(graph, table, workload.sends);
}

/// What each rank may keep; empty where that is no question.
std::vector<std::int64_t> limits_of(const Workload& workload, const Simulation& simulation) {
  const auto ranks = static_cast<std::size_t>(simulation.graph.ranks());
  if (workload.memory_limit) return std::vector<std::int64_t>(ranks, *workload.memory_limit);
  return simulation.placement ? simulation.placement->memory : std::vector<std::int64_t>{};
}

/// Of the rank that is furthest above its limit.
std::optional<Excess> worst_excess(const Simulation& simulation,
                                   const std::vector<std::int64_t>& limits) {
  std::optional<Excess> worst;
  for (std::size_t r = 0; r < limits.size(); ++r) {
    const RankMemory& memory = simulation.memory[r];
    const std::int64_t over = memory.peak.bytes - limits[r];
    if (worst && over <= worst->needed - worst->limit) continue;
    const Rank rank{static_cast<std::int32_t>(r)};
    if (const auto excess = excess_of(simulation.graph, memory, rank, limits[r])) worst = excess;
  }
  return worst;
}

/// A schedule file of several batches: it can be neither longer nor shorter.
bool has_fixed_batches(const ScheduleSpec& spec) {
  return spec.method().own_shape && spec.method().own_shape->batches > 1;
}

sim::SteadyState steady_state_of(const ScheduleSpec& spec, const Workload& workload,
                                 const DisturbedRuns& runs, const Simulation& simulation) {
  if (workload.disturbance.random()) {
    return sim::mean_period(simulation.graph, simulation.timeline);
  }
  sim::Disturbance lasting = runs.disturbance();  // what happens once is no steady state
  lasting.pauses.clear();
  const sim::StragglerCosts slowed = runs.costs_of_run(simulation.graph, lasting, 0);
  if (has_fixed_batches(spec)) {
    return sim::steady_state_of(simulation.graph, sim::run(simulation.graph, slowed));
  }
  return sim::steady_state(
      [&](int batches) {
        Shape shape = workload.shape;
        shape.batches = batches;
        const Schedule schedule = workload.schedule(spec, shape);
        return graph_of_run(schedule, schedule.build(), runs.costs(), workload, lasting, 0);
      },
      slowed);
}

/// BP's time for a batch on the same hardware, one rank working at a time: every stage where the
/// first copy of it in `tasks` is. 0, of which no speed-up is reported, where it is not known.
nanoseconds time_of_bp(const Workload& workload, const sim::BatchWork& own,
                       const TaskGraph& tasks) {
  if (!workload.layers) return own.bp;
  if (!knows_bp(*workload.layers)) return nanoseconds{0};
  const ScheduleSpec bp = ScheduleSpec::parse("bp");
  const TaskGraph graph = bp.make({.stages = workload.shape.stages}).build();
  std::vector<double> slow;  // by stage, each of which is a rank of `graph`
  for (const Stage k : up_to<Stage>(workload.shape.stages)) {
    slow.push_back(workload.disturbance.slow_factor(tasks.rank_of(k)));
  }
  const sim::StageTimes times = sim::with_slow_links(workload.costs_for(bp, graph, 1, tasks).times,
                                                     tasks, workload.disturbance);
  const sim::BatchWork work = sim::batch_work(graph, times, slow);
  return work.compute + work.transfers;
}

}  // namespace

double busy_ranks(const ScheduleSpec& spec, const Workload& workload, const TaskGraph& tasks) {
  const sim::StageCosts costs(workload.costs_for(spec, tasks, 1).times);
  const Timeline timeline = sim::run(tasks, costs);
  const Metrics alone = metrics(tasks, timeline);
  double busy = 0;
  for (const RankMetrics& rank : alone.ranks) busy += to_ms(rank.busy);
  return alone.makespan.count() == 0 ? 1 : std::max(1.0, busy / to_ms(alone.makespan));
}

void complete_staleness(const ScheduleSpec& spec, Shape shape, std::vector<StageMetrics>& stages) {
  if (spec.method().synchronous || has_fixed_batches(spec)) return;
  constexpr int endless = 1 << 30;
  shape.batches = endless;
  const Promise promise = spec.promise(shape);
  for (std::size_t k = 0; k < stages.size(); ++k) {
    if (stages[k].updates > promise.forward_staleness[k]) continue;
    stages[k].forward_staleness = promise.forward_staleness[k];
    stages[k].weight_staleness = promise.weight_staleness[k];
  }
}

void order_in_time(Schedule& schedule, const sim::StageCosts& costs, const Workload& workload,
                   const sim::Disturbance& disturbance, int run) {
  if (!sim::awaits_order(schedule)) return;
  const TaskGraph unordered = with_blocking(
      sim::unordered_graph(schedule, links_of(schedule, costs, workload)), schedule, workload);
  schedule.learning().agreement.order =
      sim::order_of_arrival(unordered, sim::StragglerCosts(costs, unordered, disturbance, run));
}

TaskGraph graph_of_run(const Schedule& schedule, const TaskGraph& in_turn,
                       const sim::StageCosts& costs, const Workload& workload,
                       const sim::Disturbance& disturbance, int run) {
  const Links links = links_of(schedule, costs, workload);
  if (!sim::awaits_order(schedule)) {
    return with_blocking(with_transfers(in_turn, links), schedule, workload);
  }
  Schedule ordered = schedule;
  order_in_time(ordered, costs, workload, disturbance, run);
  return with_blocking(with_transfers(ordered.build(), links), schedule, workload);
}

std::string Excess::text() const {
  return fmt::format("rank {} needs {} ({} bytes), the limit is {} ({} bytes); exceeded at {}",
                     rank.value, sim::format_size(needed), needed, sim::format_size(limit), limit,
                     task);
}

std::optional<Excess> excess_of(const TaskGraph& graph, const RankMemory& memory, Rank rank,
                                std::int64_t limit) {
  const auto first = first_above(memory, limit);
  if (!first) return std::nullopt;
  return Excess{
      .rank = rank,
      .needed = memory.peak.bytes,
      .limit = limit,
      .cause = first->cause,
      .task = first->cause.value < 0 ? "the weights alone" : label(graph.task(first->cause))};
}

std::int64_t Simulation::worst_peak_bytes() const {
  std::int64_t worst = 0;
  for (const RankMemory& rank : memory) worst = std::max(worst, rank.peak.bytes);
  return worst;
}

IdleCauses idle_of_all_ranks(const Metrics& metrics) {
  IdleCauses all;
  for (const RankMetrics& rank : metrics.ranks) {
    const IdleCauses& idle = rank.idle_by_cause;
    all.forward_lock += idle.forward_lock;
    all.backward_lock += idle.backward_lock;
    all.update_lock += idle.update_lock;
    all.transfer += idle.transfer;
    all.queue += idle.queue;
    all.start += idle.start;
    all.end += idle.end;
  }
  return all;
}

std::optional<double> Simulation::slow_down() const {
  if (!undisturbed || undisturbed->count() == 0) return std::nullopt;
  const nanoseconds disturbed = distribution ? distribution->mean : metrics.makespan;
  return static_cast<double>(disturbed.count()) / static_cast<double>(undisturbed->count());
}

Simulation simulate(const ScheduleSpec& spec, const Workload& workload) {
  const DisturbedRuns runs(spec, workload);
  const sim::Disturbance& disturbance = runs.disturbance();
  const TaskCosts& costs = runs.task_costs();
  const Shape shape = spec.effective(workload.shape);
  Simulation result{.spec = spec,
                    .shape = shape,
                    .options = spec.options(shape),
                    .graph = runs.graph(disturbance, 0),
                    .timeline = {},
                    .metrics = {},
                    .memory = {},
                    .steady = {},
                    .work = {},
                    .distribution = {},
                    .undisturbed = {},
                    .partition = costs.partition,
                    .placement = costs.placement,
                    .excess = {},
                    .sends = workload.sends,
                    .one_send_engine = workload.one_send_engine};
  result.timeline = sim::run(result.graph, runs.costs_of_run(result.graph, disturbance, 0));
  if (disturbance.random()) result.distribution = runs.makespans(disturbance, workload.runs);
  if (!disturbance.none()) result.undisturbed = runs.undisturbed();
  result.metrics = metrics(result.graph, result.timeline, costs.sizes.input);
  complete_staleness(spec, shape, result.metrics.stages);
  result.memory = memory(result.graph, result.timeline, costs.sizes);
  result.steady = steady_state_of(spec, workload, runs, result);
  result.work = sim::batch_work(
      result.graph, sim::with_slow_links(costs.times, result.graph, disturbance), disturbance.slow);
  result.work.bp = time_of_bp(workload, result.work, runs.tasks());
  result.excess = worst_excess(result, limits_of(workload, result));
  note_links_without_time(disturbance, result.graph);
  return result;
}

}  // namespace unlatch::tools
