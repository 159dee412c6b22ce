#include "tools/streaming.h"

#include <algorithm>

#include "schedules/error.h"
#include "sim/straggler_costs.h"
#include "sim/streamed_run.h"
#include "sim/units.h"
#include "tools/simulation.h"
#include "tools/simulation_json.h"
#include "tools/simulation_text.h"
#include "tools/terminal.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

struct Streamed {
  ScheduleSpec spec;
  Shape shape;
  Options options;
  RunSummary run;
};

void require_streamable(const Arguments& arguments) {
  for (const std::string_view flag : {"trace", "tasks", "critical-path", "sensitivity"}) {
    require(!arguments.has(flag),
            "--{}: --stream holds no tasks that could be written; leave out one", flag);
  }
  for (const std::string_view flag : {"profile", "cluster"}) {
    require(!arguments.has(flag),
            "--{}: costs of layers want the whole graph; leave it or --stream out", flag);
  }
  for (const std::string_view flag : {"pause", "slow-link", "send-engines", "output-size"}) {
    require(!arguments.has(flag), "--{}: --stream takes no such thing; leave out one", flag);
  }
  require(!arguments.has("runs"), "--runs: --stream takes one run; leave out one");
}

Streamed stream(const ScheduleSpec& spec, const Workload& workload) {
  const Schedule schedule = spec.make(workload.shape);
  const Shape shape = spec.effective(workload.shape);
  const TaskCosts costs = workload.abstract_costs(spec, shape.copies);
  const sim::StageCosts stage_costs(costs.times);
  std::vector<Rank> ranks;
  for (const Stage k : up_to<Stage>(shape.stages)) ranks.push_back(schedule.rank_of(k));
  const sim::StragglerCosts slowed(stage_costs, ranks, workload.disturbance, 0);
  return {spec, shape, spec.options(shape),
          sim::run_streamed(schedule, slowed, stage_costs.links(), costs.sizes)};
}

void require_fitting(const Streamed& streamed, const Workload& workload) {
  if (!workload.memory_limit) return;
  const std::vector<RankMemory>& memory = streamed.run.memory;
  const auto worst =
      std::ranges::max_element(memory, {}, [](const RankMemory& rank) { return rank.peak.bytes; });
  require(worst->peak.bytes <= *workload.memory_limit,
          "{} does not fit the memory limit: rank {} needs {} ({} bytes), the limit is {} ({} "
          "bytes); raise --memory-limit or choose another schedule, more stages or smaller "
          "micro-batches",
          streamed.spec.text(), worst - memory.begin(), sim::format_size(worst->peak.bytes),
          worst->peak.bytes, sim::format_size(*workload.memory_limit), *workload.memory_limit);
}

/// What only the tasks themselves say is null.
Json streamed_json(const Streamed& streamed) {
  Json json{{"schedule", streamed.spec.method().name},
            {"parameters", parameters_json(streamed.options)}};
  add_shape(json, streamed.shape);
  add_figures(json, streamed.shape, streamed.run.metrics, streamed.run.memory);
  json["critical_path"] = nullptr;
  json["critical_path_tasks"] = streamed.run.critical_path;
  const TransferTotals& transfers = streamed.run.metrics.transfers;
  json["transfers"] = {{"count", transfers.count}, {"bytes", transfers.bytes}};
  json["tasks"] = streamed.run.tasks;
  return json;
}

std::string streamed_text(const Streamed& streamed) {
  const Metrics& metrics = streamed.run.metrics;
  const std::string parameters = parameters_text(streamed.options);
  std::string text = fmt::format("{}{}\n{}\n\n", bold(streamed.spec.method().name),
                                 parameters.empty() ? "" : fmt::format(" ({})", parameters),
                                 describe(streamed.shape));
  text += fmt::format("tasks           {}, none of them held\n", streamed.run.tasks);
  text += fmt::format("makespan        {} ms\n", format_ms(metrics.makespan));
  text += fmt::format("bubble          {} of the makespan, {} of the longest span ({} ms)\n",
                      format_percent(metrics.bubble_ratio),
                      format_percent(metrics.span_bubble_ratio), format_ms(metrics.longest_span));
  const auto bottleneck = static_cast<std::size_t>(metrics.bottleneck.value);
  text += fmt::format("bottleneck      rank {}, busy {} ms\n", bottleneck,
                      format_ms(metrics.ranks[bottleneck].busy));
  text += fmt::format("transfers       {} messages, {}\n", metrics.transfers.count,
                      sim::format_size(metrics.transfers.bytes));
  text += fmt::format("\n{}", ranks_table(metrics, streamed.run.memory).text());
  return text + fmt::format("\n{}", stages_table(metrics).text());
}

}  // namespace

int simulate_streamed(const Arguments& arguments, const ScheduleSpec& spec) {
  require_streamable(arguments);
  const Workload workload = read_workload(arguments, spec, spec.method().synchronous);
  require(workload.sends == files::Sends::buffered,
          "--sends: --stream takes buffered sends only; leave out one");
  Streamed streamed = stream(spec, workload);
  complete_staleness(spec, streamed.shape, streamed.run.metrics.stages);
  require_fitting(streamed, workload);
  if (arguments.has("json")) {
    print_json(streamed_json(streamed));
  } else {
    print(streamed_text(streamed));
  }
  return 0;
}

}  // namespace unlatch::tools
