// The text of a search: table, why the winner wins, how to run it again.
#include <algorithm>
#include <cmath>
#include <map>

#include "sim/units.h"
#include "tools/search_result.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

std::string ms_of(double ns) { return format_ms(nanoseconds{std::llround(ns)}); }

std::string pieces(int micro_batches) {
  return fmt::format("{} micro-batch{}", micro_batches, micro_batches == 1 ? "" : "es");
}

/// "+1.2 ms bubble, +0.3 ms transfers"
std::string growth_text(const std::vector<sim::BatchTime::Part>& grown) {
  std::vector<std::string> parts;
  constexpr std::size_t most_parts = 2;
  for (std::size_t p = 0; p < std::min(grown.size(), most_parts); ++p) {
    parts.push_back(fmt::format("+{} ms {}", ms_of(grown[p].ns), grown[p].name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// What a finding loses to the best one by.
std::string loss_text(const sim::Finding& best, const sim::Finding& other) {
  if (other.price.period_ns <= best.price.period_ns) {
    return other.price.peak_bytes > best.price.peak_bytes ? "memory" : "staleness";
  }
  return growth_text(sim::growth(best.time, other.time));
}

/// Columns that only some searches need.
struct Columns {
  bool chunks = false, replicas = false, placing = false;

  explicit Columns(const SearchResult& result) {
    for (const std::size_t f : result.ranked) {
      const Shape& shape = result.candidate(f).shape;
      chunks |= shape.chunks > 1;
      replicas |= shape.replicas > 1;
      placing |= result.is_placed(f);
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names{"<front", "#", "<schedule", "micro-batches"};
    if (chunks) names.emplace_back("chunks");
    if (replicas) names.emplace_back("replicas");
    names.insert(names.end(), {"ranks", "period ms", "samples/s", "utilization", "memory",
                               "staleness", "<split"});
    if (placing) names.emplace_back("<ranks on nodes");
    names.emplace_back("<loses by");
    return names;
  }
  std::vector<std::string> cells(const SearchResult& result, std::size_t f, int place) const {
    const sim::Finding& finding = result.findings[f];
    const Shape& shape = result.candidate(f).shape;
    std::vector<std::string> cells{finding.on_front ? "*" : "", fmt::format("{}", place),
                                   result.candidate(f).spec.text(),
                                   fmt::format("{}", shape.micro_batches)};
    if (chunks) cells.push_back(fmt::format("{}", shape.chunks));
    if (replicas) cells.push_back(fmt::format("{}", shape.replicas));
    cells.insert(cells.end(),
                 {fmt::format("{}", shape.ranks()), ms_of(finding.price.period_ns),
                  format_number(result.samples_a_second(f), 1), format_percent(finding.utilization),
                  sim::format_size(finding.price.peak_bytes),
                  fmt::format("{}", finding.price.staleness), sim::text_of(finding.split.split)});
    if (placing) cells.push_back(result.placing(f).how);
    cells.push_back(place == 1 ? "" : loss_text(result.findings[result.ranked.front()], finding));
    return cells;
  }
};

/// The `top` best, and behind them who else is on the front, with their places.
std::string table_text(const SearchResult& result, int top) {
  const Columns columns(result);
  Table table(columns.names());
  const std::vector<std::size_t> distinct = result.distinct();
  for (std::size_t d = 0; d < distinct.size(); ++d) {
    const int place = static_cast<int>(d) + 1;
    if (place > top && !result.findings[distinct[d]].on_front) continue;
    table.add(columns.cells(result, distinct[d], place));
  }
  return table.text();
}

/// "compute 2.1, bubble 0.3": the parts of the best one's period.
std::string parts_text(const sim::BatchTime& time) {
  std::vector<std::string> parts;
  for (const sim::BatchTime::Part& part : time.parts()) {
    const std::string ms = ms_of(part.ns);
    if (ms != "0") parts.push_back(fmt::format("{} {}", part.name, ms));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// What the slower ones lose most by, counted.
std::string losses_text(const SearchResult& result) {
  const sim::Finding& best = result.findings[result.ranked.front()];
  std::map<std::string_view, int> counts;
  for (const std::size_t f : result.ranked) {
    const auto grown = sim::growth(best.time, result.findings[f].time);
    if (result.findings[f].price.period_ns > best.price.period_ns && !grown.empty()) {
      ++counts[grown.front().name];
    }
  }
  std::vector<std::pair<std::string_view, int>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [name, count] : sorted) parts.push_back(fmt::format("{} by {}", count, name));
  if (parts.empty()) return "nothing else is slower";
  return fmt::format("the slower ones lose most: {}", fmt::join(parts, ", "));
}

std::string split_text(const sim::SplitAnswer& split) {
  if (split.all) {
    return fmt::format("the best there is: {} were simulated, no other can be faster",
                       split.simulated);
  }
  if (split.simulated == 1) return "the one asked for";
  std::string text = fmt::format("the best of {} that were simulated", split.simulated);
  if (!split.sums) return text;
  const std::string by_sums = sim::text_of(*split.sums);
  return text +
         (by_sums == sim::text_of(split.split)
              ? "; the slowest stage of no other is faster"
              : fmt::format("; the slowest stage of {} is faster, but not the whole", by_sums));
}

/// "its placement 2,0,1 is the best there is: .."; empty where all devices are alike.
std::string placement_text(const sim::Finding& finding) {
  if (finding.placings < 2) return "";
  return fmt::format(
      "its placement {} is {}\n", fmt::join(finding.placing.devices, ","),
      finding.all_placings
          ? fmt::format("the best there is{}: all {} that differ were tried",
                        finding.all_splits ? ", with any split" : "", finding.placings)
          : fmt::format("the best of {} that were simulated", finding.placings));
}

std::string why_text(const SearchResult& result) {
  const std::size_t best = result.ranked.front();
  const sim::Finding& finding = result.findings[best];
  return fmt::format(
      "why {} with {} wins: of the {} ms of a batch its busiest rank spends {}; {}\n"
      "its split {} is {}\n{}",
      result.candidate(best).spec.text(), pieces(result.candidate(best).shape.micro_batches),
      ms_of(finding.price.period_ns), parts_text(finding.time), losses_text(result),
      sim::text_of(finding.split.split), split_text(finding.split), placement_text(finding));
}

std::string head_text(const SearchResult& result) {
  const LayerWorkload& layers = *result.space.layers;
  std::string text =
      layers.cluster
          ? fmt::format("{} on {}", layers.cluster->model.name, layers.cluster->cluster.name())
          : fmt::format("{} as measured on {}", layers.profile->model, layers.profile->device);
  text += fmt::format(", {} samples a batch", layers.batch_size);
  if (const auto limit = result.space.limits.memory) {
    text += fmt::format(", at most {} a rank", sim::format_size(*limit));
  } else if (layers.cluster) {
    text += ", at most what its device has a rank";
  }
  if (const auto limit = result.space.limits.staleness) {
    text += fmt::format(", staleness at most {}", *limit);
  }
  const std::string refused = refusals_text(result);
  text += fmt::format("\ntried {} candidates in {} simulations of splits; {}\n",
                      result.findings.size(), result.simulated(),
                      refused.empty() ? "none was refused" : fmt::format("refused: {}", refused));
  return text;
}

}  // namespace

std::string search_text(const SearchResult& result, int top, const Arguments& arguments) {
  return fmt::format(
      "{}\n{}\n{}* nothing tried is better in time, memory and staleness at once\n"
      "again: {}\n",
      head_text(result), table_text(result, top), why_text(result),
      command_text(result, result.ranked.front(), arguments));
}

}  // namespace unlatch::tools
