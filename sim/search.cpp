#include "sim/search.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "schedules/error.h"
#include "sim/parallel.h"
#include "sim/placing_search.h"
#include "sim/time_order.h"

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
  PlacingSearch(candidate, schedule.build(), limits, finding).run();
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
