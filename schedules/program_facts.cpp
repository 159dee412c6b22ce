#include "schedules/program_facts.h"

#include <algorithm>

#include "schedules/error.h"

namespace unlatch {

bool has_all_reduces(const Schedule& schedule) {
  return schedule.shape().copies > 1 && !is_served(schedule.shape(), schedule.learning());
}

ProgramFacts::ProgramFacts(const Schedule& schedule) : counts(schedule.shape().stages) {
  std::vector<bool> recomputes;
  for (const Program& program : schedule.programs()) {
    std::int64_t met = 0;
    bool recompute = false;
    program.runs().count([&](const ProgramItem& item, std::int64_t times) {
      if (item.kind == ProgramItem::Kind::barrier) met += times;
      recompute = recompute || item.engine == Engine::recompute;
      if (item.kind == ProgramItem::Kind::task) note(item, times);
    });
    recomputes.push_back(recompute);
    barriers_agree = barriers_agree && (barriers == 0 || met == barriers);
    barriers = std::max(barriers, static_cast<int>(met));
  }
  make_lanes(schedule, recomputes);
}

void ProgramFacts::note(const ProgramItem& item, std::int64_t times) {
  tasks += times;
  if (item.capacity != unbounded) most_capacity = std::max(most_capacity, item.capacity);
  if (item.stage.value < 0 || item.stage.value >= std::ssize(counts)) {
    stages_exist = false;
  } else {
    counts[item.stage.value][static_cast<int>(item.op)] += times;
  }
}

void ProgramFacts::make_lanes(const Schedule& schedule, const std::vector<bool>& recomputes) {
  const Shape& shape = schedule.shape();
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    lanes.push_back({r, Engine::compute, {}});
    if (recomputes[r.value]) lanes.push_back({r, Engine::recompute, {}});
  }
  if (barriers > 0) lanes.push_back({Rank{0}, Engine::control, {}});
  for (const Stage k : up_to<Stage>(has_all_reduces(schedule) ? shape.stages_a_copy() : 0)) {
    lanes.push_back({schedule.rank_of(k), Engine::all_reduce, k});
  }
  std::ranges::sort(lanes);
  lanes_of_rank.assign(shape.ranks(), {-1, -1});
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    std::array<int, 2>& mine = lanes_of_rank[lanes[lane].rank.value];
    if (lanes[lane].engine == Engine::compute) mine[0] = static_cast<int>(lane);
    if (lanes[lane].engine == Engine::recompute) mine[1] = static_cast<int>(lane);
  }
  require(lanes.size() <= 65535, "{}: {} ranks need {} lanes; at most 65535 fit a graph",
          schedule.specification(), shape.ranks(), lanes.size());
}

bool ProgramFacts::has(Op op) const {
  return std::ranges::any_of(
      counts, [op](const auto& of_stage) { return of_stage[static_cast<int>(op)] > 0; });
}

std::uint16_t ProgramFacts::find_lane(const Lane& lane) const {
  return static_cast<std::uint16_t>(std::ranges::lower_bound(lanes, lane) - lanes.begin());
}

}  // namespace unlatch
