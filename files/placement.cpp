#include "files/placement.h"

#include <fmt/format.h>

namespace unlatch::files {

std::vector<Rank> ranks_by_tasks(const Schedule& schedule) {
  const int stages = schedule.shape().stages;
  std::vector<int> most(stages, 0);
  std::vector<Rank> ranks;
  for (const Stage k : up_to<Stage>(stages)) ranks.push_back(schedule.rank_of(k));
  std::vector<int> here(stages, 0);
  for (const Rank r : up_to<Rank>(schedule.shape().ranks())) {
    std::vector<Stage> seen;
    for (const Program::Item& item : schedule.programs()[r.value].items()) {
      const bool known = item.stage.value >= 0 && item.stage.value < stages;
      if (item.kind != Program::Item::Kind::task || !known) continue;
      if (++here[item.stage.value] == 1) seen.push_back(item.stage);
    }
    for (const Stage k : seen) {
      if (here[k.value] > most[k.value]) {
        most[k.value] = here[k.value];
        ranks[k.value] = r;
      }
      here[k.value] = 0;
    }
  }
  return ranks;
}

void place_by_tasks(Schedule& schedule) {
  const std::vector<Rank> ranks = ranks_by_tasks(schedule);
  for (const Stage k : up_to<Stage>(schedule.shape().stages)) schedule.place(k, ranks[k.value]);
}

std::optional<Violation> misplaced_stages(const Schedule& schedule) {
  const std::vector<Rank> wanted = ranks_by_tasks(schedule);
  std::vector<std::string> misplaced;
  std::vector<std::vector<int>> held(schedule.shape().ranks());
  for (const Stage k : up_to<Stage>(schedule.shape().stages)) {
    const Rank placed = schedule.rank_of(k);
    held[wanted[k.value].value].push_back(k.value);
    if (placed == wanted[k.value]) continue;
    misplaced.push_back(
        fmt::format("{} (on {}, wanted on {})", k.value, placed.value, wanted[k.value].value));
  }
  if (misplaced.empty()) return std::nullopt;
  std::vector<std::string> stages;
  for (std::size_t r = 0; r < held.size(); ++r) {
    stages.push_back(fmt::format("{}:{}", r, fmt::join(held[r], ",")));
  }
  return Violation{"placement",
                   {},
                   -1,
                   -1,
                   fmt::format("the placement contradicts the programs, which want the stages "
                               "(rank:stages) {}; misplaced stages: {}",
                               fmt::join(stages, " "), fmt::join(misplaced, ", "))};
}

}  // namespace unlatch::files
