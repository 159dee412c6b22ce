#include "sim/search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "schedules/error.h"
#include "sim/parallel.h"
#include "sim/time_order.h"
#include "sim/trial.h"
#include "sim/units.h"

namespace unlatch::sim {
namespace {

int largest(const std::vector<int>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

/// What a method promises for the steady state, however many batches the run has.
Promise endless_promise(const Candidate& candidate) {
  Shape shape = candidate.shape;
  constexpr int endless = 1 << 30;
  if (!candidate.spec.method().synchronous) shape.batches = endless;
  return candidate.spec.promise(shape);
}

std::string memory_reason(const Finding& finding, Rank worst, std::int64_t limit) {
  return fmt::format(
      "of {} split{} simulated the one that needs least, {}, needs {} on rank {}; the limit is {}",
      finding.simulated, finding.simulated == 1 ? "" : "s", text_of(finding.split.split),
      format_size(finding.split.score.peak_bytes), worst.value, format_size(limit));
}

/// The best placing of a schedule whose graph is made.
void find_placing(const Candidate& candidate, const TaskGraph& tasks, const SearchLimits& limits,
                  Finding& finding) {
  std::unique_ptr<Trial> best;
  for (std::size_t p = 0; p < candidate.placings.size(); ++p) {
    finding.refused = Refusal::costs;
    auto trial = std::make_unique<Trial>(candidate, candidate.placings[p], tasks, limits);
    finding.refused = Refusal::shape;
    SplitAnswer answer = trial->best();
    finding.simulated += answer.simulated;
    ++finding.placings;
    if (best && !(answer.score < finding.split.score)) continue;
    best = std::move(trial);
    finding.placing = candidate.placings[p];
    finding.split = std::move(answer);
  }
  const SplitScore& score = finding.split.score;
  if (score.excess_bytes > 0) {
    finding.refused = Refusal::memory;
    finding.reason = memory_reason(finding, best->run(finding.split.split).worst, *limits.memory);
    return;
  }
  finding.refused.reset();
  finding.price.period_ns = score.period_ns;
  finding.price.peak_bytes = score.peak_bytes;
  best->describe(finding.split.split, finding);
}

/// Throws Error where `finding.refused` is what to call it.
void try_out(const Candidate& candidate, const SearchLimits& limits, Finding& finding) {
  finding.refused = Refusal::shape;
  require(candidate.impossible.empty(), "{}", candidate.impossible);
  finding.shape = candidate.spec.effective(candidate.shape);
  finding.options = candidate.spec.options(candidate.shape);
  const Schedule schedule = candidate.spec.make(candidate.shape);
  require(!awaits_order(schedule),
          "{}: its server's order follows from the times, which a search does not try; see "
          "'unlatch compare'",
          candidate.spec.text());
  const Promise promise = endless_promise(candidate);
  finding.price.staleness = largest(promise.forward_staleness);
  finding.weight_staleness = largest(promise.weight_staleness);
  if (limits.staleness && finding.price.staleness > *limits.staleness) {
    finding.refused = Refusal::staleness;
    fail("forward staleness {}, the limit is {}", finding.price.staleness, *limits.staleness);
  }
  find_placing(candidate, schedule.build(), limits, finding);
}

/// Looks beyond the placings of a candidate for one that is better than the best of these.
class PlacingSearch {
 public:
  PlacingSearch(const Candidate& candidate, const SearchLimits& limits, Finding& finding)
      : candidate_(candidate),
        limits_(limits),
        finding_(finding),
        tasks_(candidate.spec.make(candidate.shape).build()) {}

  void run() {
    const Devices first = finding_.placing.devices;
    const bool one_split = finding_.split.simulated == 1;
    const auto all = all_placements(sites(), static_cast<int>(first.size()),
                                    limits_.all_splits / (one_split ? 1 : limits_.splits));
    if (all.empty()) {
      improve();
    } else {
      for (const Devices& devices : all) try_splits(devices);
      finding_.placings = static_cast<int>(all.size());
      finding_.all_placings = true;
    }
    if (finding_.placing.devices != first) {
      trial(finding_.placing)->describe(finding_.split.split, finding_);
    }
  }

 private:
  const Sites& sites() const { return candidate_.seating->sites; }

  /// Null where a device has no costs for this candidate.
  std::unique_ptr<Trial> trial(const Placing& placing) const {
    try {
      return std::make_unique<Trial>(candidate_, placing, tasks_, limits_);
    } catch (const Error&) {
      return nullptr;
    }
  }

  /// The best split of a placement; true where it is better than what was found before.
  bool try_splits(const Devices& devices) {
    Placing placing = candidate_.seating->placing(devices);
    const auto of_placing = trial(placing);
    if (!of_placing) return false;
    SplitAnswer answer = of_placing->best();
    finding_.simulated += answer.simulated;
    if (!(answer.score < finding_.split.score)) return false;
    finding_.price.period_ns = answer.score.period_ns;
    finding_.price.peak_bytes = answer.score.peak_bytes;
    finding_.split = std::move(answer);
    finding_.placing = std::move(placing);
    return true;
  }

  /// From all placings given: a split that stays while ranks move, then one for where they are. A
  /// split for slow devices keeps ranks on them, so that it begins with one for equal devices, too.
  void improve() {
    std::vector<Devices> starts;
    for (const Placing& placing : candidate_.placings) starts.push_back(placing.devices);
    std::vector<Split> splits{finding_.split.split};
    if (finding_.split.sums) splits.push_back(*finding_.split.sums);
    for (const Split& split : splits) {
      for (const Devices& start : starts) improve(start, split);
    }
    std::set<Devices> tried;
    for (const auto& [placed, score] : scores_) tried.insert(placed.first);
    finding_.placings = static_cast<int>(tried.size());
  }

  void improve(Devices devices, Split split) {
    while (left() > 1) {
      devices = descend(sites(), devices, left(),
                        [&](const Devices& moved) { return score(moved, split); });
      if (!try_splits(devices)) return;
      split = finding_.split.split;
    }
  }

  int left() const { return std::max(1, limits_.placements - static_cast<int>(scores_.size())); }

  SplitScore score(const Devices& devices, const Split& split) {
    const auto [entry, is_new] = scores_.try_emplace({devices, text_of(split)});
    if (!is_new) return entry->second;
    const auto of_placing = trial(candidate_.seating->placing(devices));
    entry->second = of_placing
                        ? of_placing->run(split).score
                        : SplitScore{.excess_bytes = std::numeric_limits<std::int64_t>::max()};
    ++finding_.simulated;
    return entry->second;
  }

  const Candidate& candidate_;
  const SearchLimits& limits_;
  Finding& finding_;
  const TaskGraph tasks_;
  std::map<std::pair<Devices, std::string>, SplitScore> scores_;
};

/// The first of the ranked with prices of their own, whose ranks can move.
std::vector<std::size_t> to_place(const std::vector<Candidate>& candidates,
                                  const std::vector<Finding>& findings, int most) {
  std::vector<std::size_t> chosen;
  for (const std::size_t f : ranking(findings)) {
    if (static_cast<int>(chosen.size()) == most) break;
    if (!candidates[f].seating) continue;
    if (!chosen.empty() && findings[chosen.back()].price == findings[f].price) continue;
    chosen.push_back(f);
  }
  return chosen;
}

void mark_front(std::vector<Finding>& findings) {
  const std::vector<std::size_t> ranked = ranking(findings);
  std::vector<Price> prices;
  for (const std::size_t f : ranked) prices.push_back(findings[f].price);
  const std::vector<bool> front = pareto_front(prices);
  for (std::size_t place = 0; place < ranked.size(); ++place) {
    findings[ranked[place]].on_front = front[place];
  }
}

}  // namespace

std::string_view name(Refusal refusal) {
  switch (refusal) {
    case Refusal::shape:
      return "with a shape that the schedule cannot run";
    case Refusal::costs:
      return "without costs or places";
    case Refusal::memory:
      return "over the memory limit";
    case Refusal::staleness:
      return "staler than allowed";
  }
  return "";
}

std::vector<Finding> search(const std::vector<Candidate>& candidates, const SearchLimits& limits) {
  std::vector<Finding> findings(candidates.size());
  in_parallel(static_cast<int>(candidates.size()), [&](int c) {
    const auto at = static_cast<std::size_t>(c);
    try {
      try_out(candidates[at], limits, findings[at]);
    } catch (const Error& error) {
      findings[at].reason = error.what();
    }
  });
  const std::vector<std::size_t> best = to_place(candidates, findings, limits.placed);
  in_parallel(static_cast<int>(best.size()), [&](int b) {
    const std::size_t f = best[static_cast<std::size_t>(b)];
    PlacingSearch(candidates[f], limits, findings[f]).run();
  });
  mark_front(findings);
  return findings;
}

std::vector<std::size_t> ranking(const std::vector<Finding>& findings) {
  std::vector<std::size_t> ranked;
  for (std::size_t f = 0; f < findings.size(); ++f) {
    if (!findings[f].refused) ranked.push_back(f);
  }
  std::ranges::stable_sort(ranked, {}, [&](std::size_t f) {
    const Price& price = findings[f].price;
    return std::tuple(price.period_ns, price.peak_bytes, price.staleness);
  });
  return ranked;
}

}  // namespace unlatch::sim
