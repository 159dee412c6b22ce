#include "files/reduction_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "schedules/graph_algorithms.h"

namespace unlatch::files {
namespace {

/// What a rank does for one reduction, and the reduction before it on that rank.
struct Part {
  Rank rank;
  std::string update;  ///< the label of its U
  int before = -1;     ///< reduction; -1: none
  std::string before_update;
};

struct Reduction {
  Stage stage;  ///< of the model
  std::vector<Part> parts;
};

class ReductionOrder {
 public:
  explicit ReductionOrder(const Schedule& schedule) : schedule_(schedule) {
    for (const Rank r : up_to<Rank>(schedule.shape().ranks())) note_updates_of(r);
  }

  std::optional<Violation> shortest() const {
    const auto predecessors = [this](int reduction, const std::function<void(int)>& visit) {
      for (const Part& part : reductions_[reduction].parts) {
        if (part.before >= 0) visit(part.before);
      }
    };
    const std::vector<int> cycle =
        shortest_cycle(static_cast<int>(reductions_.size()), predecessors);
    if (cycle.empty()) return std::nullopt;
    return violation(cycle);
  }

 private:
  void note_updates_of(Rank rank) {
    const Agreement& agreement = schedule_.learning().agreement;
    const int period = agreement.kind == Agreement::Kind::average ? agreement.period : 1;
    std::vector<int> updates(schedule_.shape().stages, 0);
    Part newest{.rank = rank, .update = {}, .before = -1, .before_update = {}};
    for (const Program::Item& item : schedule_.programs()[rank.value].items()) {
      if (item.kind != Program::Item::Kind::task || item.op != Op::update) continue;
      const int number = updates[item.stage.value]++;
      if ((number + 1) % period != 0) continue;
      newest.update = fmt::format("{}U{}", item.stage.value, number);
      const int reduction = find(schedule_.shape().model_stage(item.stage), number);
      reductions_[reduction].parts.push_back(newest);
      newest.before = reduction;
      newest.before_update = newest.update;
    }
  }

  int find(Stage model_stage, int number) {
    const auto [found, added] =
        numbers_.try_emplace({model_stage.value, number}, static_cast<int>(reductions_.size()));
    if (added) reductions_.push_back({model_stage, {}});
    return found->second;
  }

  /// Every reduction of the cycle stands behind the next one.
  Violation violation(const std::vector<int>& cycle) const {
    Violation result{"deadlock", {}, -1, -1, ""};
    std::vector<std::string> steps;
    for (std::size_t n = 0; n < cycle.size(); ++n) {
      const int before = cycle[(n + 1) % cycle.size()];
      const Reduction& later = reductions_[cycle[n]];
      const auto part = std::ranges::find(later.parts, before, &Part::before);
      if (result.row < 0) result.row = part->rank.value;
      result.tasks.push_back(part->update);
      steps.push_back(fmt::format("rank {} reduces stage {} ({}) before stage {} ({})",
                                  part->rank.value, reductions_[before].stage.value,
                                  part->before_update, later.stage.value, part->update));
    }
    result.message =
        fmt::format("deadlock of all-reduces that block: {}; give all ranks the same order",
                    fmt::join(steps, "; "));
    return result;
  }

  const Schedule& schedule_;
  std::vector<Reduction> reductions_;
  std::map<std::pair<int, int>, int> numbers_;  ///< by model stage and number of the update
};

}  // namespace

std::optional<Violation> reduction_deadlock(const Schedule& schedule) {
  const bool reduces = schedule.learning().agreement.kind != Agreement::Kind::server;
  if (schedule.shape().copies == 1 || !reduces) return std::nullopt;
  return ReductionOrder(schedule).shortest();
}

}  // namespace unlatch::files
