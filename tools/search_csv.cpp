// The CSV file of a search.
#include <fmt/format.h>

#include "tools/search_files.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

/// In quotes where a comma, a quote or the end of a line would end the field.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string shape_fields(const SearchResult& result, std::size_t f) {
  const Shape& shape = result.candidate(f).shape;
  return fmt::format("{},{},{},{},{}", field(result.candidate(f).spec.text()), shape.replicas,
                     shape.ranks(), shape.chunks, shape.micro_batches);
}

std::string found_line(const SearchResult& result, std::size_t f, int place) {
  const sim::Finding& finding = result.findings[f];
  const sim::BatchTime& time = finding.time;
  std::string line =
      fmt::format("{},{},{},{},{}", place, shape_fields(result, f), result.placing(f).how,
                  fmt::join(result.placing(f).devices, "/"), sim::text_of(finding.split.split));
  line += fmt::format(",{},{},{},{},{},{},{}", finding.price.period_ns / 1e6,
                      result.samples_a_second(f), finding.utilization.value_or(0),
                      finding.price.peak_bytes, finding.price.staleness, finding.weight_staleness,
                      finding.on_front ? "yes" : "no");
  for (const sim::BatchTime::Part& part : time.parts()) line += fmt::format(",{}", part.ns / 1e6);
  return line + fmt::format(",{},,\n", finding.simulated);
}

}  // namespace

void write_search_csv(const std::string& path, const SearchResult& result) {
  AtomicFile file(path);
  file << "place,schedule,replicas,ranks,chunks,microbatches,ranks_on_nodes,devices,partition,"
          "batch_period_ms,samples_per_second,utilization,peak_memory_bytes,forward_staleness,"
          "weight_staleness,pareto,compute_ms,recompute_ms,update_ms,transfer_ms,update_wait_ms,"
          "bubble_ms,splits_simulated,refused,reason\n";
  int place = 0;
  for (const std::size_t f : result.ranked) file << found_line(result, f, ++place);
  for (std::size_t f = 0; f < result.findings.size(); ++f) {
    const sim::Finding& finding = result.findings[f];
    if (!finding.refused) continue;
    file << fmt::format(",{},,,,,,,,,,,,,,,,,{},{},{}\n", shape_fields(result, f),
                        finding.simulated, field(std::string(sim::name(*finding.refused))),
                        field(finding.reason));
  }
  file.commit();
}

}  // namespace unlatch::tools
