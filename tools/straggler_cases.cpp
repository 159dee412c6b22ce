#include "tools/straggler_cases.h"

#include <algorithm>
#include <array>
#include <utility>

#include "schedules/error.h"
#include "sim/shared_workers.h"
#include "sim/steady_state.h"

namespace unlatch::tools {
namespace {

constexpr double usual_factor = 1.5;

constexpr std::array<std::string_view, 4> flags{"slow", "slow-link", "pause", "straggler"};

/// What all cases have.
sim::Disturbance calm(const DisturbedRuns& runs) {
  sim::Disturbance none = runs.disturbance();
  std::ranges::fill(none.slow, 1.0);
  none.slow_links.clear();
  none.pauses.clear();
  none.stragglers.clear();
  return none;
}

}  // namespace

UsualPauses usual_pauses(const DisturbedRuns& runs) {
  const TaskGraph& tasks = runs.tasks();
  const std::vector<double> equal(static_cast<std::size_t>(tasks.ranks()), 1.0);
  const sim::BatchWork work = sim::batch_work(tasks, runs.costs().times(), equal);
  const nanoseconds of_rank = std::max(nanoseconds{1}, work.compute / tasks.ranks());
  return {.every = 10 * of_rank, .time = std::max(nanoseconds{1}, of_rank / 5)};
}

std::vector<StragglerCase> usual_cases(const DisturbedRuns& runs, UsualPauses pauses) {
  const int ranks = runs.tasks().ranks();
  std::vector<StragglerCase> cases;
  for (const auto& [name, rank] :
       {std::pair{"first rank x1.5", 0}, {"middle x1.5", ranks / 2}, {"last x1.5", ranks - 1}}) {
    cases.push_back({name, calm(runs)});
    cases.back().disturbance.slow[static_cast<std::size_t>(rank)] = usual_factor;
  }
  cases.push_back({"random x1.5", calm(runs)});
  cases.back().disturbance.stragglers = {
      {.kind = sim::Straggler::Kind::random, .probability = 1.0 / 3, .factor = usual_factor}};
  if (sim::shares_workers(runs.tasks(), runs.costs())) return cases;  // which does not know pauses
  cases.push_back({"pauses", calm(runs)});
  cases.back().disturbance.stragglers = {
      {.kind = sim::Straggler::Kind::pause, .every = pauses.every, .time = pauses.time}};
  return cases;
}

bool asks_cases(const Arguments& arguments) {
  return std::ranges::any_of(flags, [&](std::string_view flag) { return arguments.has(flag); });
}

std::vector<StragglerCase> asked_cases(const Arguments& arguments, const DisturbedRuns& runs) {
  const sim::Disturbance& all = runs.disturbance();
  std::vector<StragglerCase> cases;
  const auto add = [&](std::string_view flag, std::size_t number) -> sim::Disturbance& {
    return cases.emplace_back(fmt::format("{} {}", flag, arguments.all(flag)[number]), calm(runs))
        .disturbance;
  };
  const std::vector<std::string> slow = arguments.all("slow");
  for (std::size_t i = 0; i < slow.size(); ++i) {
    const auto [rank, factor] =
        sim::parse_slow(slow[i], runs.tasks().ranks(), arguments.place("slow"));
    add("slow", i).slow[static_cast<std::size_t>(rank.value)] = factor;
  }
  for (std::size_t i = 0; i < all.slow_links.size(); ++i) {
    add("slow-link", i).slow_links = {all.slow_links[i]};
  }
  for (std::size_t i = 0; i < all.pauses.size(); ++i) add("pause", i).pauses = {all.pauses[i]};
  for (std::size_t i = 0; i < all.stragglers.size(); ++i) {
    add("straggler", i).stragglers = {all.stragglers[i]};
  }
  if (cases.size() > 1) cases.push_back({"all", all});
  return cases;
}

}  // namespace unlatch::tools
