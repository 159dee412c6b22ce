#include "tools/simulation_json.h"

#include "schedules/error.h"
#include "schedules/properties.h"
#include "traces/critical_path.h"

namespace unlatch::tools {
namespace {

Json idle_json(const IdleCauses& idle) {
  return {{"forward_lock", to_ms(idle.forward_lock)},
          {"backward_lock", to_ms(idle.backward_lock)},
          {"update_lock", to_ms(idle.update_lock)},
          {"transfer", to_ms(idle.transfer)},
          {"queue", to_ms(idle.queue)},
          {"start", to_ms(idle.start)},
          {"end", to_ms(idle.end)}};
}

Json rank_json(int rank, const RankMetrics& metrics, const RankMemory& memory) {
  Json json{{"rank", rank},
            {"busy_ms", to_ms(metrics.busy)},
            {"recompute_ms", to_ms(metrics.recompute)},
            {"idle_ms", to_ms(metrics.idle)},
            {"utilization", number_json(metrics.utilization)},
            {"idle_by_cause_ms", idle_json(metrics.idle_by_cause)},
            {"peak_activations", memory.peak_activations},
            {"peak_inputs", memory.peak_inputs},
            {"peak_weight_versions", memory.peak_weight_versions},
            {"peak_memory_bytes", memory.peak.bytes}};
  if (memory.peak_with_queues) json["peak_memory_with_queues_bytes"] = *memory.peak_with_queues;
  return json;
}

Json stages_json(const Shape& shape, const Metrics& metrics) {
  Json stages = Json::array();
  for (const Stage k : up_to<Stage>(shape.stages)) {
    const StageMetrics& stage = metrics.stages[static_cast<std::size_t>(k.value)];
    Json json{{"stage", k.value},
              {"rank", stage.rank.value},
              {"forward_staleness", stage.forward_staleness},
              {"weight_staleness", stage.weight_staleness},
              {"updates", stage.updates}};
    // Stages of further copies of the model are numbered on: stage k of copy c is c x stages + k.
    if (shape.copies > 1) json["copy"] = shape.copy_of(k);
    stages.push_back(std::move(json));
  }
  return stages;
}

Json links_json(const std::vector<sim::Link>& links) {
  Json json = Json::array();
  for (const sim::Link& link : links) {
    json.push_back({{"link", link.name},
                    {"bytes_per_second", link.rate},
                    {"latency_ms", to_ms(link.latency)}});
  }
  return json;
}

Json path_json(const TaskGraph& graph, const Timeline& timeline, const CriticalPath& path) {
  Json json = Json::array();
  for (const TaskId id : path.tasks) {
    json.push_back({{"task", label(graph.task(id))},
                    {"start_ms", to_ms(timeline[id].start)},
                    {"end_ms", to_ms(timeline[id].end)}});
  }
  return json;
}

}  // namespace

Json partition_json(const std::vector<models::StageRange>& partition) {
  Json layers = Json::array();
  for (const models::StageRange& range : partition) layers.push_back(range.layers());
  return layers;
}

void add_figures(Json& json, const Shape& shape, const Metrics& metrics,
                 const std::vector<RankMemory>& memory) {
  json["makespan_ms"] = to_ms(metrics.makespan);
  json["bubble_ratio"] = number_json(metrics.bubble_ratio);
  json["longest_span_ms"] = to_ms(metrics.longest_span);
  json["span_bubble_ratio"] = number_json(metrics.span_bubble_ratio);
  json["steady_state"] = nullptr;  // keeps its place; filled in by those who know it
  const auto bottleneck = static_cast<std::size_t>(metrics.bottleneck.value);
  json["bottleneck"] = {{"rank", metrics.bottleneck.value},
                        {"busy_ms", to_ms(metrics.ranks[bottleneck].busy)}};
  Json ranks = Json::array();
  for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
    ranks.push_back(rank_json(static_cast<int>(r), metrics.ranks[r], memory[r]));
  }
  json["idle_by_cause_ms"] = idle_json(idle_of_all_ranks(metrics));
  json["ranks_detail"] = std::move(ranks);
  json["stages_detail"] = stages_json(shape, metrics);
}

void add_peaks(Json& json, const TaskGraph& graph, const std::vector<RankMemory>& memory) {
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const MemoryLevel& peak = memory[r].peak;
    Json& rank = json["ranks_detail"][r];
    rank["peak_memory_at_ms"] = to_ms(peak.at);
    rank["peak_memory_task"] = nullptr;  // before any
    if (peak.cause.value >= 0) rank["peak_memory_task"] = label(graph.task(peak.cause));
  }
}

void add_run(Json& json, const TaskGraph& graph, const Timeline& timeline, const Metrics& metrics,
             const std::vector<RankMemory>& memory, int most_path) {
  add_figures(json, graph.shape(), metrics, memory);
  const CriticalPath path = critical_path(graph, timeline, most_path);
  json["critical_path"] = path_json(graph, timeline, path);
  json["critical_path_tasks"] = path.length;
  json["transfers"] = {{"count", metrics.transfers.count}, {"bytes", metrics.transfers.bytes}};
}

Json steady_json(const sim::SteadyState& steady, const sim::BatchWork& work) {
  return {{"batch_period_ms", steady.batch_period_ns / 1e6},
          {"exact", steady.exact},
          {"speedup_over_bp", number_json(work.speedup_over_bp(steady))},
          {"utilization", number_json(work.utilization(steady))}};
}

Json distribution_json(const sim::Distribution& runs) {
  return {{"runs", runs.runs},
          {"mean_ms", to_ms(runs.mean)},
          {"mean_95_ms", {to_ms(runs.mean_low), to_ms(runs.mean_high)}},
          {"p50_ms", to_ms(runs.p50)},
          {"p95_ms", to_ms(runs.p95)},
          {"p99_ms", to_ms(runs.p99)}};
}

Json simulation_json(const Simulation& simulation, int most_path) {
  Json json{{"schedule", simulation.spec.method().name},
            {"parameters", parameters_json(simulation.options)}};
  add_shape(json, simulation.shape);
  add_run(json, simulation.graph, simulation.timeline, simulation.metrics, simulation.memory,
          most_path);
  add_peaks(json, simulation.graph, simulation.memory);
  json["steady_state"] = steady_json(simulation.steady, simulation.work);
  if (const auto& runs = simulation.distribution) {
    json["distribution"] = distribution_json(*runs);
  }
  if (simulation.undisturbed) {
    json["undisturbed_makespan_ms"] = to_ms(*simulation.undisturbed);
    json["slow_down"] = number_json(simulation.slow_down());
  }
  if (simulation.sends != files::Sends::buffered) json["sends"] = files::name(simulation.sends);
  if (simulation.one_send_engine) json["send_engines"] = "one";
  if (!simulation.partition.empty()) json["partition"] = partition_json(simulation.partition);
  if (const auto& placement = simulation.placement) {
    json["placement"] = {{"devices", placement->devices},
                         {"device_types", placement->types},
                         {"nodes", placement->nodes},
                         {"node_borders_crossed", placement->borders.size()},
                         {"crossing_stages", placement->borders},
                         {"links", links_json(placement->links)}};
  }
  return json;
}

int asked_path_length(const Arguments& arguments) {
  constexpr int usual = 1000;
  if (arguments.text("critical-path") == "all") return 0;
  return arguments.whole("critical-path", usual);
}

}  // namespace unlatch::tools
