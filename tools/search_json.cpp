// The JSON document of a search.
#include "tools/search_result.h"

namespace unlatch::tools {
namespace {

Json sizes_json(const sim::Split& split) {
  Json sizes = Json::array();
  for (const models::StageRange& stage : split) sizes.push_back(stage.layers());
  return sizes;
}

Json time_json(const sim::BatchTime& time) {
  return {{"compute", time.compute / 1e6},     {"recompute", time.recompute / 1e6},
          {"update", time.update / 1e6},       {"transfer", time.transfer / 1e6},
          {"update_wait", time.joining / 1e6}, {"bubble", time.bubble / 1e6}};
}

void add_candidate(const SearchResult& result, std::size_t f, Json& json) {
  const Shape& shape = result.candidate(f).shape;
  json["schedule"] = result.candidate(f).spec.text();
  json["microbatches"] = shape.micro_batches;
  json["stages"] = shape.stages;
  json["ranks"] = shape.ranks();
  json["chunks"] = shape.chunks;
  json["replicas"] = shape.replicas;
}

Json finding_json(const SearchResult& result, std::size_t f, const Arguments& arguments) {
  const sim::Finding& finding = result.findings[f];
  Json json;
  add_candidate(result, f, json);
  json["parameters"] = parameters_json(finding.options);
  json["partition"] = sizes_json(finding.split.split);
  json["placement"] = result.placing(f).devices;
  json["placements_tried"] = result.findings[f].placings;
  json["all_placements"] = result.findings[f].all_placings;
  json["all_splits"] = result.findings[f].all_splits;
  json["ranks_on_nodes"] = result.placing(f).how;
  json["batch_period_ms"] = finding.price.period_ns / 1e6;
  json["samples_per_second"] = result.samples_a_second(f);
  json["utilization"] = number_json(finding.utilization);
  json["peak_memory_bytes"] = finding.price.peak_bytes;
  json["forward_staleness"] = finding.price.staleness;
  json["weight_staleness"] = finding.weight_staleness;
  json["pareto"] = finding.on_front;
  json["busiest_rank_ms"] = time_json(finding.time);
  json["splits"] = {{"simulated", finding.simulated}, {"all", finding.split.all}};
  json["splits"]["fastest_slowest_stage"] =
      finding.split.sums ? sizes_json(*finding.split.sums) : Json(nullptr);
  json["command"] = command_text(result, f, arguments);
  return json;
}

}  // namespace

Json search_json(const SearchResult& result, const Arguments& arguments) {
  const SearchSpace& space = result.space;
  Json json;
  json["batch_size"] = space.layers->batch_size;
  json["memory_limit_bytes"] = space.limits.memory ? Json(*space.limits.memory) : Json(nullptr);
  json["staleness_limit"] = space.limits.staleness ? Json(*space.limits.staleness) : Json(nullptr);
  json["tried"] = result.findings.size();
  json["simulated_splits"] = result.simulated();
  json["found"] = Json::array();
  for (const std::size_t f : result.ranked) {
    json["found"].push_back(finding_json(result, f, arguments));
  }
  json["refused"] = Json::array();
  for (std::size_t f = 0; f < result.findings.size(); ++f) {
    const sim::Finding& finding = result.findings[f];
    if (!finding.refused) continue;
    Json refused;
    add_candidate(result, f, refused);
    refused["kind"] = sim::name(*finding.refused);
    refused["reason"] = finding.reason;
    json["refused"].push_back(std::move(refused));
  }
  return json;
}

}  // namespace unlatch::tools
