#include "tools/simulation_text.h"

#include <algorithm>

#include "sim/units.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "traces/critical_path.h"

namespace unlatch::tools {
namespace {

std::string value_text(const OptionValue& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return fmt::format("{}", fmt::join(std::get<std::vector<int>>(value), "/"));
}

std::string head(const Simulation& s) {
  const std::string parameters = parameters_text(s.options);
  std::string text = fmt::format("{}{}\n", bold(s.spec.method().name),
                                 parameters.empty() ? "" : fmt::format(" ({})", parameters));
  text += fmt::format("{}\n\n", describe(s.shape));
  text += fmt::format("makespan        {} ms\n", format_ms(s.metrics.makespan));
  text += fmt::format("batch period    {} ms in steady state{}\n",
                      format_ms(s.steady.batch_period_ns / 1e6), s.steady.exact ? "" : " (mean)");
  text += fmt::format("speed-up        {} over BP on the same ranks\n",
                      format_number(s.work.speedup_over_bp(s.steady)));
  text += fmt::format("utilization     {} in steady state\n",
                      format_percent(s.work.utilization(s.steady)));
  text +=
      fmt::format("bubble          {} of the makespan, {} of the longest span ({} ms)\n",
                  format_percent(s.metrics.bubble_ratio),
                  format_percent(s.metrics.span_bubble_ratio), format_ms(s.metrics.longest_span));
  const auto bottleneck = static_cast<std::size_t>(s.metrics.bottleneck.value);
  text += fmt::format("bottleneck      rank {}, busy {} ms\n", bottleneck,
                      format_ms(s.metrics.ranks[bottleneck].busy));
  text += fmt::format("transfers       {} messages, {}\n", s.metrics.transfers.count,
                      sim::format_size(s.metrics.transfers.bytes));
  return text;
}

/// The first columns of the table of ranks.
std::vector<std::string> times_of(const std::string& rank, nanoseconds busy, nanoseconds recompute,
                                  std::optional<double> utilization, const IdleCauses& idle) {
  return {rank,
          format_ms(busy),
          format_ms(recompute),
          format_ms(idle.total()),
          format_percent(utilization),
          format_ms(idle.forward_lock),
          format_ms(idle.backward_lock),
          format_ms(idle.update_lock),
          format_ms(idle.transfer),
          format_ms(idle.queue),
          format_ms(idle.start),
          format_ms(idle.end)};
}

std::optional<double> mean_utilization(const Metrics& metrics) {
  double sum = 0;
  for (const RankMetrics& rank : metrics.ranks) {
    if (!rank.utilization) return std::nullopt;
    sum += *rank.utilization;
  }
  return sum / static_cast<double>(metrics.ranks.size());
}

std::string distribution_text(const sim::Distribution& d) {
  return fmt::format(
      "makespan of {} runs: mean {} ms ({} to {} with 95 %), p50 {} ms, p95 {} ms, p99 {} ms\n",
      d.runs, format_ms(d.mean), format_ms(d.mean_low), format_ms(d.mean_high), format_ms(d.p50),
      format_ms(d.p95), format_ms(d.p99));
}

std::string borders_text(const Placement& placement) {
  if (placement.borders.empty()) return "placement       all neighbouring stages on one node\n";
  std::vector<std::string> borders;
  for (const auto& [from, to] : placement.borders)
    borders.push_back(fmt::format("{}|{}", from, to));
  return fmt::format("placement       {} node border{} crossed, between stages {}\n",
                     borders.size(), borders.size() == 1 ? "" : "s", fmt::join(borders, ", "));
}

std::string placement_text(const Placement& placement) {
  std::string text = borders_text(placement);
  for (const sim::Link& link : placement.links) {
    text += fmt::format("link            {}: {}, latency {}\n", link.name,
                        sim::format_rate(link.rate), sim::format_duration(link.latency));
  }
  return text;
}

/// The first and last tasks of the path; all of them are in the JSON document.
std::string path_text(const Simulation& s, int most) {
  const CriticalPath path = critical_path(s.graph, s.timeline, most);
  std::string text = fmt::format("critical path ({} tasks): ", path.length);
  constexpr std::size_t shown = 12;
  const std::size_t count = path.tasks.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (most != 0 && count > shown && i == shown / 2) {
      text += "... ";
      i = count - shown / 2;
    }
    text += fmt::format("{} ", label(s.graph.task(path.tasks[i])));
  }
  text.back() = '\n';
  return text;
}

}  // namespace

std::string parameters_text(const Options& options) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : options.all()) {
    parts.push_back(fmt::format("{}={}", key, value_text(value)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string peak_text(const TaskGraph& graph, const std::vector<RankMemory>& memory) {
  const auto most =
      std::ranges::max_element(memory, {}, [](const RankMemory& rank) { return rank.peak.bytes; });
  if (most == memory.end() || most->peak.bytes == 0) return "";
  const MemoryLevel& peak = most->peak;
  return fmt::format(
      "most memory     {} on rank {}, {}\n", sim::format_size(peak.bytes), most - memory.begin(),
      peak.cause.value < 0
          ? "before any task"
          : fmt::format("from {} ms on by {}", format_ms(peak.at), label(graph.task(peak.cause))));
}

Table ranks_table(const Metrics& metrics, const std::vector<RankMemory>& memory) {
  std::vector<std::string> columns{"rank",     "busy",   "recompute", "idle",  "F+B",   "forward",
                                   "backward", "update", "transfer",  "queue", "start", "end",
                                   "tapes",    "inputs", "versions",  "memory"};
  const bool knows_queues = !memory.empty() && memory.front().peak_with_queues.has_value();
  if (knows_queues) columns.emplace_back("with queues");
  Table table(columns);
  nanoseconds busy{0}, recompute{0};
  for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
    const RankMetrics& rank = metrics.ranks[r];
    std::vector<std::string> cells = times_of(fmt::format("{}", r), rank.busy, rank.recompute,
                                              rank.utilization, rank.idle_by_cause);
    cells.insert(cells.end(), {fmt::format("{}", memory[r].peak_activations),
                               fmt::format("{}", memory[r].peak_inputs),
                               fmt::format("{}", memory[r].peak_weight_versions),
                               sim::format_size(memory[r].peak.bytes)});
    if (knows_queues) cells.push_back(sim::format_size(*memory[r].peak_with_queues));
    table.add(cells);
    busy += rank.busy;
    recompute += rank.recompute;
  }
  if (metrics.ranks.size() < 2) return table;
  std::vector<std::string> all =
      times_of("all", busy, recompute, mean_utilization(metrics), idle_of_all_ranks(metrics));
  all.resize(table.columns());
  table.add(all);
  return table;
}

Table stages_table(const Metrics& metrics) {
  Table table({"stage", "rank", "forward staleness", "weight staleness", "updates"});
  for (const Stage k : up_to<Stage>(static_cast<int>(metrics.stages.size()))) {
    const StageMetrics& stage = metrics.stages[static_cast<std::size_t>(k.value)];
    table.add({fmt::format("{}", k.value), fmt::format("{}", stage.rank.value),
               fmt::format("{}", stage.forward_staleness),
               fmt::format("{}", stage.weight_staleness), fmt::format("{}", stage.updates)});
  }
  return table;
}

std::string simulation_text(const Simulation& s, int most_path) {
  std::string text = head(s);
  if (s.sends != files::Sends::buffered) {
    text +=
        fmt::format("sends           {}: both ranks wait for a message\n", files::name(s.sends));
  }
  if (s.one_send_engine) text += "send engines    one for all sends of a rank\n";
  if (s.placement) text += placement_text(*s.placement);
  if (s.distribution) text += distribution_text(*s.distribution);
  if (s.undisturbed) {
    text += fmt::format("slow-down       {} over the undisturbed makespan of {} ms\n",
                        format_number(s.slow_down()), format_ms(*s.undisturbed));
  }
  text += fmt::format(
      "\nTimes in ms; idle time by what it waits for (locks, transfer, queue), or "
      "before the first and after the last task:\n{}",
      ranks_table(s.metrics, s.memory).text());
  text += peak_text(s.graph, s.memory);
  text += fmt::format("\n{}", stages_table(s.graph, s.metrics).text());
  return text + fmt::format("\n{}", path_text(s, most_path));
}

}  // namespace unlatch::tools
