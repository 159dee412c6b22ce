#include "tools/simulation.h"

#include <algorithm>

#include "schedules/error.h"
#include "sim/monte_carlo.h"
#include "sim/simulator.h"
#include "sim/time_order.h"
#include "sim/units.h"
#include "tools/terminal.h"
#include "traces/chrome_trace.h"
#include "traces/tasks_csv.h"

namespace unlatch::tools {
namespace {

/// What one random run multiplies the costs by.
sim::StragglerCosts costs_of_run(const sim::StageCosts& costs, const TaskGraph& graph,
                                 const Workload& workload, int run) {
  return {costs, graph, workload.slow, workload.straggler, workload.seed, run};
}

/// The makespans of all random runs, the first of which is known.
sim::Distribution run_all(const Schedule& schedule, const TaskGraph& in_turn,
                          const Simulation& first, const sim::StageCosts& costs,
                          const Workload& workload) {
  const bool own_orders = sim::awaits_order(schedule);
  const auto time_of_run = [&](int run) {
    const auto time_of = [&](const TaskGraph& graph) {
      return makespan(sim::run(graph, costs_of_run(costs, graph, workload, run)));
    };
    return own_orders ? time_of(graph_of_run(schedule, in_turn, costs, workload, run))
                      : time_of(first.graph);
  };
  std::vector<nanoseconds> makespans = sim::times_of_runs(1, workload.runs - 1, time_of_run);
  makespans.push_back(makespan(first.timeline));
  return sim::distribution(std::move(makespans));
}

std::optional<Excess> worst_excess(const TaskGraph& graph, const std::vector<RankMemory>& memory,
                                   std::int64_t limit) {
  const auto worst =
      std::ranges::max_element(memory, {}, [](const RankMemory& rank) { return rank.peak.bytes; });
  if (worst == memory.end()) return std::nullopt;
  return excess_of(graph, *worst, {static_cast<std::int32_t>(worst - memory.begin())}, limit);
}

/// A schedule file of several batches: it can be neither longer nor shorter.
bool has_fixed_batches(const ScheduleSpec& spec) {
  return spec.method().own_shape && spec.method().own_shape->batches > 1;
}

sim::SteadyState steady_state_of(const ScheduleSpec& spec, const Workload& workload,
                                 const sim::StageCosts& costs, const Simulation& simulation) {
  if (workload.straggler.random()) {
    return sim::mean_period(simulation.graph, simulation.timeline);
  }
  if (has_fixed_batches(spec)) {
    return sim::steady_state_of(simulation.graph, simulation.timeline);
  }
  const sim::StragglerCosts slowed(costs, simulation.graph, workload.slow, workload.straggler,
                                   workload.seed, 0);
  return sim::steady_state(
      [&](int batches) {
        Shape shape = workload.shape;
        shape.batches = batches;
        const Schedule schedule = spec.make(shape);
        return graph_of_run(schedule, schedule.build(), costs, workload, 0);
      },
      slowed);
}

/// How many ranks work at once on average, with the costs of one working alone: workers share
/// caches, memory and clock rate, so costs depend on it.
double busy_ranks(const ScheduleSpec& spec, const Workload& workload, const TaskGraph& tasks) {
  const sim::StageCosts costs(workload.costs_for(spec, tasks, 1).times);
  const Timeline timeline = sim::run(tasks, costs);
  const Metrics alone = metrics(tasks, timeline);
  double busy = 0;
  for (const RankMetrics& rank : alone.ranks) busy += to_ms(rank.busy);
  return alone.makespan.count() == 0 ? 1 : std::max(1.0, busy / to_ms(alone.makespan));
}

/// BP's time for a batch on the same hardware, one rank working at a time: every stage where the
/// first copy of it in `tasks` is.
nanoseconds time_of_bp(const Workload& workload, const sim::BatchWork& own,
                       const TaskGraph& tasks) {
  if (!workload.layers) return own.bp;
  const ScheduleSpec bp = ScheduleSpec::parse("bp");
  const TaskGraph graph = bp.make({.stages = workload.shape.stages}).build();
  std::vector<double> slow;  // by stage, each of which is a rank of `graph`
  for (const Stage k : up_to<Stage>(workload.shape.stages)) {
    slow.push_back(workload.slow[static_cast<std::size_t>(tasks.rank_of(k).value)]);
  }
  const sim::BatchWork work =
      sim::batch_work(graph, workload.costs_for(bp, graph, 1, tasks).times, slow);
  return work.compute + work.transfers;
}

}  // namespace

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
                   int run) {
  if (!sim::awaits_order(schedule)) return;
  const TaskGraph unordered = sim::unordered_graph(schedule, costs.links());
  schedule.learning().agreement.order =
      sim::order_of_arrival(unordered, costs_of_run(costs, unordered, workload, run));
}

TaskGraph graph_of_run(const Schedule& schedule, const TaskGraph& in_turn,
                       const sim::StageCosts& costs, const Workload& workload, int run) {
  if (!sim::awaits_order(schedule)) return with_transfers(in_turn, costs.links());
  Schedule ordered = schedule;
  order_in_time(ordered, costs, workload, run);
  return with_transfers(ordered.build(), costs.links());
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

Simulation simulate(const ScheduleSpec& spec, const Workload& workload) {
  const Schedule schedule = spec.make(workload.shape);
  const TaskGraph tasks = schedule.build();
  const TaskCosts task_costs =
      workload.costs_for(spec, tasks, workload.layers ? busy_ranks(spec, workload, tasks) : 1);
  const sim::StageCosts costs(task_costs.times, task_costs.traffic);
  const Shape shape = spec.effective(workload.shape);
  Simulation result{.spec = spec,
                    .shape = shape,
                    .options = spec.options(shape),
                    .graph = graph_of_run(schedule, tasks, costs, workload, 0),
                    .timeline = {},
                    .metrics = {},
                    .memory = {},
                    .steady = {},
                    .work = {},
                    .distribution = {},
                    .partition = task_costs.partition,
                    .placement = task_costs.placement,
                    .excess = {},
                    .sends = workload.sends};
  result.timeline = sim::run(result.graph, costs_of_run(costs, result.graph, workload, 0));
  if (workload.straggler.random()) {
    result.distribution = run_all(schedule, tasks, result, costs, workload);
  }
  result.metrics = metrics(result.graph, result.timeline, task_costs.sizes.input);
  complete_staleness(spec, shape, result.metrics.stages);
  result.memory = memory(result.graph, result.timeline, task_costs.sizes);
  result.steady = steady_state_of(spec, workload, costs, result);
  result.work = sim::batch_work(result.graph, costs.times(), workload.slow);
  result.work.bp = time_of_bp(workload, result.work, tasks);
  if (workload.memory_limit) {
    result.excess = worst_excess(result.graph, result.memory, *workload.memory_limit);
  }
  return result;
}

void write_files(const Arguments& arguments, const Simulation& simulation) {
  if (const auto path = arguments.text("trace")) {
    ChromeTraceOptions options;
    options.memory = simulation.memory;
    const TraceSize size = chrome_trace_size(simulation.graph, simulation.timeline, options);
    constexpr std::int64_t many_events = 1'000'000;
    if (size.events > many_events) {
      say(
          fmt::format("note: {} will hold {} events, about {}; chrome://tracing opens a million, "
                      "Perfetto a few million",
                      *path, size.events, sim::format_size(size.bytes)));
    }
    write_chrome_trace(*path, simulation.graph, simulation.timeline, options);
  }
  if (const auto path = arguments.text("tasks")) {
    write_tasks_csv(*path, simulation.graph, simulation.timeline);
  }
}

std::vector<Flag> file_flags() {
  return {{"trace", "FILE", "Write a Chrome trace (.json or .json.gz)"},
          {"tasks", "FILE", "Write the tasks as CSV"}};
}

}  // namespace unlatch::tools
