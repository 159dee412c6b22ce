// Search result: what a search found, as text, JSON and CSV show it.
#pragma once

#include <string>
#include <vector>

#include "tools/json_output.h"
#include "tools/search_space.h"

namespace unlatch::tools {

struct SearchResult {
  const SearchSpace& space;
  std::vector<sim::Finding> findings;  ///< one a candidate
  std::vector<std::size_t> ranked;     ///< those not refused, best first

  const sim::Candidate& candidate(std::size_t f) const { return space.candidates[f]; }
  const sim::Placing& placing(std::size_t f) const { return findings[f].placing; }
  /// Whether its ranks sit otherwise than the cluster says, or could.
  bool is_placed(std::size_t f) const {
    return candidate(f).placings.size() > 1 || findings[f].placings > 1;
  }
  double samples_a_second(std::size_t f) const;
  /// Splits that were simulated for all candidates together.
  std::int64_t simulated() const;
  /// The ranked ones whose price no better placed one has, too.
  std::vector<std::size_t> distinct() const;
};

/// "40 over the memory limit, 21 impossible shapes"; empty when nothing was refused.
std::string refusals_text(const SearchResult& result);
/// The same with an example of each, a line a kind.
std::string refusals_with_examples(const SearchResult& result);
/// The `unlatch simulate` flags that lead to a finding: the split, the placement and all costs.
std::string command_text(const SearchResult& result, std::size_t f, const Arguments& arguments);

/// The `top` best and the rest of the front, why the best one wins, and how to run it again.
std::string search_text(const SearchResult& result, int top, const Arguments& arguments);
/// The whole document, refused candidates with their reasons included.
Json search_json(const SearchResult& result, const Arguments& arguments);

}  // namespace unlatch::tools
