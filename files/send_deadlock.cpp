// The wait graph of blocking sends: two nodes a group of messages, its start and its end. The end
// waits for the start of every group that holds what its actions await, the start for the end
// before it.
#include <fmt/format.h>

#include <algorithm>

#include "files/message_checks.h"
#include "files/task_index.h"
#include "files/waits.h"
#include "schedules/graph_algorithms.h"

namespace unlatch::files {
namespace {

/// A run of actions of one row that start together.
struct Group {
  int row = 0;
  std::size_t first = 0, end = 0;
};

/// Who waits for a message to come: the receive itself, or the work that needs it.
enum class Receives { block, posted };

/// One wait of a cycle: an action of a blocked group and the group of what it awaits.
struct Wait {
  const Action* action = nullptr;
  int row = 0;
  int partner_row = 0;
};

class WaitFinder {
 public:
  WaitFinder(const ActionTable& table, Sends sends, Receives receives)
      : table_(table),
        sends_(sends),
        receives_(receives),
        group_of_(stages_in(table), micro_batches_in(table), -1) {
    for (std::size_t r = 0; r < table.rows.size(); ++r) add_groups(static_cast<int>(r));
  }

  std::optional<Violation> shortest() const {
    const auto predecessors = [this](int node, const std::function<void(int)>& visit) {
      const int group = node / 2;
      if (node % 2 == 0) {
        const bool first = group == 0 || groups_[group - 1].row != groups_[group].row;
        if (!first) visit(node - 1);
        return;
      }
      visit(node - 1);
      for (const Action& action : actions(group)) {
        const int other = awaited_group(action);
        if (other >= 0 && other != group) visit(2 * other);
      }
    };
    const std::vector<int> cycle =
        shortest_cycle(2 * static_cast<int>(groups_.size()), predecessors);
    if (cycle.empty()) return std::nullopt;
    return violation(waits_of(cycle));
  }

 private:
  std::span<const Action> actions(int group) const {
    const Group& g = groups_[group];
    return {table_.rows[g.row].data() + g.first, g.end - g.first};
  }

  void add_groups(int row) {
    const ActionRow& actions = table_.rows[row];
    for (std::size_t j = 0; j < actions.size(); ++j) {
      const bool joins = sends_ == Sends::grouped && j > 0 && is_message(actions[j].kind) &&
                         is_message(actions[j - 1].kind);
      if (!joins) groups_.push_back({row, j, j});
      groups_.back().end = j + 1;
      if (group_of_.covers(actions[j])) {
        group_of_[actions[j]] = static_cast<std::int32_t>(groups_.size()) - 1;
      }
    }
  }

  bool stands(const Action& action) const { return group_of_.at(action) >= 0; }

  /// What must have started before the action ends; nothing where it waits for no other rank.
  std::optional<Action> awaited(const Action& action) const {
    if (is_send_wait(action.kind)) return partner(awaited_send(action));
    if (is_send(action.kind)) {
      if (sends_ == Sends::buffered || stands(wait_of(action))) return std::nullopt;
      return partner(action);
    }
    if (receives_ == Receives::block) {
      return is_message(action.kind) ? std::optional(partner(action)) : std::nullopt;
    }
    const Action receive = as(action.kind == ActionKind::forward ? ActionKind::receive_forward
                                                                 : ActionKind::receive_backward,
                              action);
    const bool needs_input =
        action.kind == ActionKind::forward || gives_input_gradient(action.kind);
    return needs_input && stands(receive) ? std::optional(partner(receive)) : std::nullopt;
  }

  int awaited_group(const Action& action) const {
    const std::optional<Action> other = awaited(action);
    return other ? group_of_.at(*other) : -1;
  }

  /// The steps of the cycle that lead from one rank to another.
  std::vector<Wait> waits_of(const std::vector<int>& cycle) const {
    std::vector<Wait> waits;
    for (std::size_t n = 0; n < cycle.size(); ++n) {
      const int from = cycle[n] / 2, to = cycle[(n + 1) % cycle.size()] / 2;
      if (cycle[n] % 2 == 0 || from == to) continue;
      for (const Action& action : actions(from)) {
        if (awaited_group(action) != to) continue;
        waits.push_back({&action, groups_[from].row, groups_[to].row});
        break;
      }
    }
    return waits;
  }

  Violation violation(const std::vector<Wait>& waits) const {
    Violation result{"deadlock", {}, waits.front().row, waits.front().action->column, ""};
    std::vector<std::string> parts;
    for (std::size_t n = 0; n < waits.size(); ++n) {
      const Wait& wait = waits[n];
      result.tasks.push_back(label(*wait.action));
      parts.push_back(fmt::format("rank {} in {} waits for {} of rank {}, which stands behind {}",
                                  wait.row, result.tasks.back(), label(*awaited(*wait.action)),
                                  wait.partner_row, label(*waits[(n + 1) % waits.size()].action)));
    }
    constexpr std::size_t most_parts = 10;
    if (parts.size() > most_parts) {
      const std::string between = fmt::format("({} more)", parts.size() - most_parts);
      parts.erase(parts.begin() + most_parts / 2, parts.end() - most_parts / 2);
      parts.insert(parts.begin() + most_parts / 2, between);
    }
    result.message = fmt::format("deadlock {}: {}", cause(), fmt::join(parts, "; "));
    return result;
  }

  std::string cause() const {
    return receives_ == Receives::posted ? "of sends that are waited for too early"
                                         : fmt::format("with {} sends", name(sends_));
  }

  const ActionTable& table_;
  Sends sends_;
  Receives receives_;
  std::vector<Group> groups_;
  TaskIndex<std::int32_t> group_of_;
};

}  // namespace

std::string_view name(Sends sends) {
  switch (sends) {
    case Sends::buffered:
      return "buffered";
    case Sends::rendezvous:
      return "rendezvous";
    case Sends::grouped:
      return "grouped";
  }
  return "?";
}

std::optional<Violation> send_deadlock(const ActionTable& table, Sends sends) {
  return WaitFinder(table, sends, Receives::block).shortest();
}

std::optional<Violation> wait_deadlock(const ActionTable& table) {
  if (!has_waits(table)) return std::nullopt;
  return WaitFinder(table, Sends::buffered, Receives::posted).shortest();
}

}  // namespace unlatch::files
