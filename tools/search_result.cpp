#include "tools/search_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace unlatch::tools {
namespace {

struct Refused {
  int count = 0;
  std::string example;
};

std::map<sim::Refusal, Refused> refused_by_kind(const SearchResult& result) {
  std::map<sim::Refusal, Refused> kinds;
  for (std::size_t f = 0; f < result.findings.size(); ++f) {
    const sim::Finding& finding = result.findings[f];
    if (!finding.refused) continue;
    Refused& kind = kinds[*finding.refused];
    if (kind.count++ > 0) continue;
    kind.example =
        fmt::format("{}, {} micro-batch{}: {}", result.candidate(f).spec.text(),
                    result.candidate(f).shape.micro_batches,
                    result.candidate(f).shape.micro_batches == 1 ? "" : "es", finding.reason);
  }
  return kinds;
}

}  // namespace

double SearchResult::samples_a_second(std::size_t f) const {
  constexpr double ns_a_second = 1e9;
  return space.layers->batch_size / findings[f].price.period_ns * ns_a_second;
}

std::int64_t SearchResult::simulated() const {
  std::int64_t sum = 0;
  for (const sim::Finding& finding : findings) sum += finding.simulated;
  return sum;
}

std::vector<std::size_t> SearchResult::distinct() const {
  std::vector<std::size_t> kept;
  for (const std::size_t f : ranked) {
    // Ranked by price, so that equal ones are neighbours.
    if (kept.empty() || findings[kept.back()].price != findings[f].price) kept.push_back(f);
  }
  return kept;
}

std::string refusals_text(const SearchResult& result) {
  std::vector<std::string> parts;
  for (const auto& [kind, refused] : refused_by_kind(result)) {
    parts.push_back(fmt::format("{} {}", refused.count, sim::name(kind)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string refusals_with_examples(const SearchResult& result) {
  std::string text;
  for (const auto& [kind, refused] : refused_by_kind(result)) {
    text +=
        fmt::format("\n  {} {}; the first: {}", refused.count, sim::name(kind), refused.example);
  }
  return text;
}

std::string command_text(const SearchResult& result, std::size_t f, const Arguments& arguments) {
  const sim::Candidate& candidate = result.candidate(f);
  const Shape& shape = candidate.shape;
  std::string text = fmt::format(
      "unlatch simulate --schedule {} --stages {} --chunks {} --microbatches {} --partition {}",
      candidate.spec.text(), shape.stages, shape.chunks, shape.micro_batches,
      sim::text_of(result.findings[f].split.split));
  if (shape.replicas > 1) text += fmt::format(" --replicas {}", shape.replicas);
  const sim::Placing& placing = result.placing(f);
  if (result.is_placed(f) || arguments.has("placement")) {
    text += fmt::format(" --placement {}", fmt::join(placing.devices, ","));
  }
  std::vector<Flag> flags = layer_flags().flags;
  for (const Flag& flag : search_flags().flags) {
    if (flag.name == "memory-limit" || flag.name == "overlap") flags.push_back(flag);
  }
  for (const Flag& flag : flags) {
    const bool is_found = flag.name == "partition" || flag.name == "placement";
    if (is_found || !arguments.has(flag.name)) continue;
    text += fmt::format(" --{} {}", flag.name, *arguments.text(flag.name));
  }
  return text;
}

}  // namespace unlatch::tools
