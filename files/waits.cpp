#include "files/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "files/action_places.h"

namespace unlatch::files {
namespace {

/// In the next column, or in that of the action it overlaps.
void append(ActionRow& row, Action action) {
  const int step = action.overlap == Overlap::next ? 0 : 1;
  action.column = row.empty() ? 0 : row.back().column + step;
  row.push_back(action);
}

class SendWaitAdder {
 public:
  explicit SendWaitAdder(const ActionTable& table)
      : table_(table), pending_(stages_in(table), micro_batches_in(table), false) {}

  ActionTable add() {
    for (const ActionRow& row : table_.rows) {
      row_ = &result_.rows.emplace_back();
      std::size_t cell = 0;
      for (std::size_t j = 0; j < row.size(); ++j) {
        append(*row_, row[j]);
        const bool ends_cell = j + 1 == row.size() || row[j + 1].overlap != Overlap::next;
        if (!ends_cell) continue;
        for (; cell <= j; ++cell) add_waits_behind(row[cell]);
      }
      for (const Action& action : row) add_wait_for(action);
    }
    return std::move(result_);
  }

 private:
  void add_waits_behind(const Action& action) {
    if (is_send(action.kind)) pending_[action] = true;
    if (gives_input_gradient(action.kind)) add_wait_for(as(ActionKind::send_forward, action));
  }

  /// Nothing for what is no send, was not sent yet or has its wait already.
  void add_wait_for(const Action& send) {
    if (!is_send(send.kind) || !pending_.at(send)) return;
    pending_[send] = false;
    Action wait = wait_of(send);
    wait.overlap = Overlap::none;  // of a B in a block
    append(*row_, wait);
  }

  const ActionTable& table_;
  TaskIndex<std::uint8_t> pending_;  ///< sends that no wait has answered yet
  ActionTable result_;
  ActionRow* row_ = nullptr;
};

class WaitChecker {
 public:
  WaitChecker(const ActionTable& table, const Shape& shape)
      : table_(table), places_(first_places(table, shape)) {}

  std::vector<Violation> check() {
    for (row_ = 0; row_ < static_cast<int>(table_.rows.size()); ++row_) {
      for (const Action& action : table_.rows[row_]) {
        if (!places_.covers(action)) continue;
        if (is_send(action.kind)) check_send(action);
        if (is_send_wait(action.kind)) check_wait(action);
      }
      check_reductions();
    }
    return std::move(violations_);
  }

 private:
  void check_send(const Action& send) {
    if (places_.at(wait_of(send)).row != row_) report_without_wait(send, wait_of(send));
  }

  void check_wait(const Action& wait) {
    const Action send = awaited_send(wait);
    const Place place = places_.at(send);
    if (place.row != row_) {
      report("missing", wait,
             fmt::format("there is no {} on rank {} to wait for", label(send), row_));
    } else if (place.position > places_.at(wait).position) {
      report("order", wait,
             fmt::format("{}, which it waits for, comes later, in column {}", label(send),
                         place.column));
    }
  }

  void check_reductions() {
    const Action* pending = nullptr;
    for (const Action& action : table_.rows[row_]) {
      if (action.kind == ActionKind::reduce_gradient) {
        if (pending != nullptr) report_still_running(action, *pending);
        pending = &action;
      } else if (action.kind == ActionKind::wait_reduction) {
        const bool matches = pending != nullptr && pending->stage == action.stage;
        if (!matches) report_without_reduction(action);
        if (matches) pending = nullptr;
      }
    }
    if (pending != nullptr) {
      report_without_wait(*pending, as(ActionKind::wait_reduction, *pending));
    }
  }

  void report_still_running(const Action& action, const Action& pending) {
    report("order", action,
           fmt::format("{} of column {} is not waited for yet; a rank runs one reduction at a time",
                       label(pending), pending.column));
  }

  void report_without_reduction(const Action& wait) {
    report("missing", wait,
           fmt::format("no {} is running that it could wait for",
                       label(as(ActionKind::reduce_gradient, wait))));
  }

  void report_without_wait(const Action& action, const Action& wait) {
    report("missing", action,
           fmt::format("{} is missing after it; a file that waits for any send or reduction waits "
                       "for all of them",
                       label(wait)));
  }

  void report(std::string rule, const Action& action, std::string_view why) {
    violations_.push_back(violation_at(std::move(rule), action, row_, why));
  }

  const ActionTable& table_;
  TaskIndex<Place> places_;
  int row_ = 0;
  std::vector<Violation> violations_;
};

}  // namespace

ActionTable with_reduction_waits(const ActionTable& table) {
  ActionTable result;
  for (const ActionRow& row : table.rows) {
    ActionRow& longer = result.rows.emplace_back();
    for (const Action& action : row) {
      append(longer, action);
      if (action.kind == ActionKind::reduce_gradient) {
        append(longer, as(ActionKind::wait_reduction, action));
      }
    }
  }
  return result;
}

ActionTable with_send_waits(const ActionTable& table) { return SendWaitAdder(table).add(); }

std::vector<Violation> wait_violations(const ActionTable& table, const Shape& shape) {
  if (!has_waits(table)) return {};
  return WaitChecker(table, shape).check();
}

}  // namespace unlatch::files
