#include "tools/memory_report.h"

#include <fmt/format.h>

#include "sim/units.h"

namespace unlatch::tools {
namespace {

using Kind = exec::KeptMemory::Kind;

std::string size_text(std::size_t bytes) {
  return sim::format_size(static_cast<std::int64_t>(bytes));
}

Json pool_json(const exec::StreamMemory::Use& use) {
  return {{"peak_bytes", use.peak},
          {"peak_between_tasks_bytes", use.kept_peak},
          {"task_workspace_bytes", use.workspace},
          {"reserved_bytes", use.reserved},
          {"allocated_bytes", use.allocated}};
}

}  // namespace

Json memory_json(const MeasuredMemory& measured, const PredictedMemory& predicted) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < measured.kept.size(); ++r) {
    const exec::KeptMemory::Account& kept = measured.kept[r];
    const auto bytes = [&](Kind kind) { return kept.peak.of(kind).bytes; };
    Json json{{"rank", r},
              {"predicted_peak_bytes", predicted.by_layers[r].peak.bytes},
              {"predicted_peak_of_tensors_bytes", predicted.by_tensors[r].peak.bytes},
              {"predicted_peak_with_queues_bytes", *predicted.by_tensors[r].peak_with_queues},
              {"kept_peak_bytes", kept.peak.bytes()},
              {"kept_at_peak_bytes",
               {{"activations", bytes(Kind::activations)},
                {"inputs", bytes(Kind::inputs)},
                {"weights", bytes(Kind::weights)},
                {"gradients", bytes(Kind::gradients)},
                {"optimizer", bytes(Kind::optimizer)}}},
              {"kept_peak_with_queues_bytes", kept.peak_with_queues},
              {"kept_peak_activations", kept.peak_activations},
              {"kept_peak_inputs", kept.peak_inputs},
              {"kept_peak_weight_versions", kept.peak_weight_versions}};
    if (!measured.pools.empty()) json["pool"] = pool_json(measured.pools[r]);
    ranks.push_back(std::move(json));
  }
  return ranks;
}

Table memory_table(const MeasuredMemory& measured, const PredictedMemory& predicted) {
  std::vector<std::string> columns{"rank", "by layers", "by tensors", "kept", "with queues"};
  const bool pools = !measured.pools.empty();
  if (pools) columns.insert(columns.end(), {"pool", "workspace", "cuBLAS", "allocated"});
  Table table(columns);
  for (std::size_t r = 0; r < measured.kept.size(); ++r) {
    const exec::KeptMemory::Account& kept = measured.kept[r];
    std::vector<std::string> cells{
        fmt::format("{}", r), sim::format_size(predicted.by_layers[r].peak.bytes),
        sim::format_size(predicted.by_tensors[r].peak.bytes), sim::format_size(kept.peak.bytes()),
        sim::format_size(kept.peak_with_queues)};
    if (pools) {
      const exec::StreamMemory::Use& use = measured.pools[r];
      for (const std::size_t bytes : {use.peak, use.workspace, use.reserved, use.allocated}) {
        cells.push_back(size_text(bytes));
      }
    }
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace unlatch::tools
