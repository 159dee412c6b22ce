#include "sim/placing_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedules/error.h"
#include "sim/units.h"

namespace unlatch::sim {
namespace {

/// "of 12 splits simulated on 3 placements the nearest, 2/2 on devices 0,1, needs 3 GB on rank 0"
std::string memory_reason(const Finding& finding, const Trial::Run& nearest) {
  std::string text =
      fmt::format("of {} split{} simulated", finding.simulated, finding.simulated == 1 ? "" : "s");
  if (finding.placings > 1) text += fmt::format(" on {} placements", finding.placings);
  text += fmt::format(" the nearest, {}", text_of(finding.split.split));
  if (finding.placings > 1) {
    text += fmt::format(" on devices {}", fmt::join(finding.placing.devices, ","));
  }
  return text + fmt::format(", needs {} on rank {}; the limit is {}", format_size(nearest.kept),
                            nearest.worst.value, format_size(nearest.limit));
}

}  // namespace

PlacingSearch::PlacingSearch(const Candidate& candidate, const TaskGraph& tasks,
                             const SearchLimits& limits, Finding& finding)
    : candidate_(candidate), limits_(limits), finding_(finding), graphs_(candidate, tasks) {}

void PlacingSearch::run() {
  if (candidate_.seating) likeness_.emplace(candidate_.seating->sites);
  try_given();
  if (candidate_.seating) try_seating();
  if (!best_) {
    finding_.refused = Refusal::costs;
    fail("{}", no_costs_);
  }
  report();
}

void PlacingSearch::try_given() {
  for (const Placing& placing : candidate_.placings) {
    Seat* const seat = seat_on(placing);
    if (!seat) continue;
    simulate(*seat);
    if (candidate_.seating) {
      seat_of_.try_emplace(likeness_->representative(placing.devices), seat);
      continue;
    }
    SplitAnswer answer = seat->trial->best(limits_.splits);
    if (!(seat->answer.score < answer.score)) seat->answer = std::move(answer);
    keep_if_best(*seat);
  }
}

void PlacingSearch::try_seating() {
  const Sites& sites = candidate_.seating->sites;
  const int ranks = graphs_.tasks().ranks();
  if (sites.devices.size() < static_cast<std::size_t>(ranks)) return;
  const auto all = all_placements(sites, ranks, static_cast<int>(affordable()));
  if (all.empty()) {
    try_swaps();
    finding_.placings = static_cast<int>(seats_.size());
    return;
  }
  try_all(all);
  finding_.placings = static_cast<int>(all.size());
  finding_.all_placings = true;
  finding_.all_splits = std::ranges::all_of(
      seats_, [this](const auto& seat) { return seat->is_done || !may_be_better(*seat); });
}

void PlacingSearch::try_all(const std::vector<Devices>& all) {
  std::vector<Seat*> seats;
  for (const Devices& devices : all) {
    if (Seat* const seat = seat_on(devices)) seats.push_back(seat);
  }
  std::ranges::stable_sort(seats, {}, &Seat::floor);
  for (Seat* const seat : seats) {
    if (may_be_better(*seat)) simulate(*seat);
  }
  improve_splits();
}

void PlacingSearch::try_swaps() {
  const Shape& shape = candidate_.shape;
  const int ranks = graphs_.tasks().ranks();
  for (const Devices& devices :
       filling_placements(candidate_.seating->sites, shape.replicas, ranks / shape.replicas)) {
    if (Seat* const seat = seat_on(devices)) simulate(*seat);
  }
  for (const Seat* const seat : seats_by_score()) {
    descend_from(seat->placing.devices, (affordable() - simulated()) / 2);
  }
  improve_splits();
  if (!best_) return;
  descend_from(best_->placing.devices, affordable() / 2);
  improve_splits();
}

void PlacingSearch::descend_from(const Devices& devices, std::int64_t most) {
  constexpr std::int64_t looks = 64;  // at placements for each that is simulated
  ends_at_ = simulated() + most;
  descend(candidate_.seating->sites, devices, static_cast<int>(looks * affordable()),
          [this](const Devices& moved) { return score(moved); });
}

void PlacingSearch::improve_splits() {
  constexpr int few = 24;
  std::int64_t left = affordable();
  improve_splits(std::min(few, limits_.splits), left);
  improve_splits(limits_.splits, left);
}

void PlacingSearch::improve_splits(int splits_each, std::int64_t& left) {
  for (Seat* const seat : seats_by_score()) {
    if (left <= 0) return;
    if (seat->is_done || !may_be_better(*seat)) continue;
    std::optional<double> bound;
    if (best_->answer.score.excess_bytes == 0) bound = best_->answer.score.period_ns;
    const int before = seat->trial->simulated();
    SplitAnswer answer = seat->trial->best(splits_each, bound);
    left -= seat->trial->simulated() - before;
    seat->is_done = answer.all || answer.simulated == 1;
    if (!(seat->answer.score < answer.score)) seat->answer = std::move(answer);
    keep_if_best(*seat);
  }
}

PlacingSearch::Seat* PlacingSearch::seat_on(Placing placing) {
  auto seat = std::make_unique<Seat>();
  try {
    seat->trial = std::make_unique<Trial>(candidate_, placing, graphs_, limits_);
  } catch (const Error& error) {
    if (no_costs_.empty()) no_costs_ = error.what();
    return nullptr;
  }
  finding_.refused = Refusal::shape;
  seat->floor = seat->trial->least_floor();
  seat->placing = std::move(placing);
  seats_.push_back(std::move(seat));
  return seats_.back().get();
}

PlacingSearch::Seat* PlacingSearch::seat_on(const Devices& devices) {
  const auto [known, is_new] = seat_of_.try_emplace(likeness_->representative(devices), nullptr);
  if (is_new) known->second = seat_on(candidate_.seating->placing(devices));
  return known->second;
}

void PlacingSearch::simulate(Seat& seat) {
  if (seat.trial->simulated() > 0) return;
  std::optional<Split> other;
  if (best_) other = best_->answer.split;
  seat.answer = seat.trial->quick(other);
  keep_if_best(seat);
}

SplitScore PlacingSearch::score(const Devices& devices) {
  const bool is_known = seat_of_.contains(likeness_->representative(devices));
  Seat* const seat = is_known || simulated() < ends_at_ ? seat_on(devices) : nullptr;
  if (!seat) return {.excess_bytes = std::numeric_limits<std::int64_t>::max()};
  simulate(*seat);
  return seat->answer.score;
}

void PlacingSearch::keep_if_best(Seat& seat) {
  if (!best_ || seat.answer.score < best_->answer.score) best_ = &seat;
}

bool PlacingSearch::may_be_better(const Seat& seat) const {
  if (!best_ || best_->answer.score.excess_bytes > 0) return true;
  return seat.floor <= best_->answer.score.period_ns;
}

std::vector<PlacingSearch::Seat*> PlacingSearch::seats_by_score() const {
  std::vector<Seat*> seats;
  for (const auto& seat : seats_) {
    if (seat->trial->simulated() > 0) seats.push_back(seat.get());
  }
  std::ranges::stable_sort(seats, {}, [](const Seat* seat) { return seat->answer.score; });
  return seats;
}

std::int64_t PlacingSearch::affordable() const {
  constexpr std::int64_t least = 16, most = 2048;
  constexpr int usual_batches = 24;  // until a steady state is seen
  const std::int64_t of_one = best_ ? graphs_.size() : usual_batches * graphs_.tasks().size();
  return std::clamp(limits_.tasks / std::max<std::int64_t>(of_one, 1), least, most);
}

std::int64_t PlacingSearch::simulated() const {
  std::int64_t sum = 0;
  for (const auto& seat : seats_) sum += seat->trial->simulated();
  return sum;
}

void PlacingSearch::report() {
  const SplitScore& score = best_->answer.score;
  finding_.simulated = static_cast<int>(simulated());
  if (!candidate_.seating) finding_.placings = static_cast<int>(seats_.size());
  finding_.placing = best_->placing;
  finding_.split = best_->answer;
  if (score.excess_bytes > 0) {
    finding_.refused = Refusal::memory;
    finding_.reason = memory_reason(finding_, best_->trial->run(best_->answer.split));
    return;
  }
  finding_.refused.reset();
  finding_.price.period_ns = score.period_ns;
  finding_.price.peak_bytes = score.peak_bytes;
  best_->trial->describe(best_->answer.split, finding_);
}

}  // namespace unlatch::sim
