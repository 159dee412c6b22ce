#include "files/message_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "files/reduction_order.h"
#include "files/table_schedule.h"
#include "files/task_index.h"

namespace unlatch::files {
namespace {

using Items = std::vector<Program::Item>;

bool is_queue_place(Op op) { return op >= Op::push_forward && op <= Op::pop_backward; }

std::string why_not(const Items& items, std::size_t j) {
  const Program::Item& item = items[j];
  if (item.kind != Program::Item::Kind::task) return "has barriers or phases";
  if (!is_queue_place(item.op) || is_hand_over(items, j)) return "";
  return fmt::format("passes messages on through queues ({})",
                     label(item.op, item.stage, item.micro_batch));
}

bool is_action(const Program::Item& item) {
  return item.op == Op::forward || item.op == Op::backward || item.op == Op::backward_input ||
         item.op == Op::backward_weight;
}

/// Only the actions of a rank, an F and the B that ends its block in one cell.
ActionRow row_of(const Items& items) {
  ActionRow row;
  for (const Program::Item& item : items) {
    if (is_action(item)) add_action(item, row);
  }
  return row;
}

class MessagePlacer {
 public:
  MessagePlacer(const ActionTable& table, int copies)
      : table_(table),
        ranks_(ranks_of_stages(table)),
        stages_a_copy_(std::max(1, static_cast<int>(ranks_.size()) / copies)) {}

  ActionTable place() const {
    ActionTable result;
    for (std::size_t r = 0; r < table_.rows.size(); ++r) {
      result.rows.push_back(placed(table_.rows[r], static_cast<int>(r)));
    }
    return result;
  }

 private:
  ActionRow placed(const ActionRow& row, int rank) const {
    ActionRow result;
    for (std::size_t first = 0; first < row.size();) {
      std::size_t end = first + 1;
      while (end < row.size() && row[end].overlap == Overlap::next) ++end;
      const std::span<const Action> cell(row.data() + first, end - first);
      for (const Action& action : cell) add_receive(action, rank, result);
      for (const Action& action : cell) {
        if (is_compute(action.kind)) result.push_back(action);
      }
      for (const Action& action : cell) add_send(action, rank, result);
      first = end;
    }
    return result;
  }

  /// The rank that an action's data comes from (towards the input or the loss) or goes to; -1: none
  /// or the same.
  int other_rank(const Action& action, int rank, bool towards_loss) const {
    const int k = action.stage.value;
    const bool at_end = (towards_loss ? k + 1 : k) % stages_a_copy_ == 0;
    if (at_end) return -1;
    const int other = ranks_[k + (towards_loss ? 1 : -1)];
    return other == rank ? -1 : other;
  }

  void add_receive(const Action& action, int rank, ActionRow& row) const {
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !gives_input_gradient(action.kind)) return;
    if (other_rank(action, rank, !forward) < 0) return;
    add(forward ? ActionKind::receive_forward : ActionKind::receive_backward, action, row);
  }

  void add_send(const Action& action, int rank, ActionRow& row) const {
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !gives_input_gradient(action.kind)) return;
    if (other_rank(action, rank, forward) < 0) return;
    add(forward ? ActionKind::send_forward : ActionKind::send_backward, action, row);
  }

  static void add(ActionKind kind, const Action& action, ActionRow& row) {
    row.push_back(as(kind, action));
    row.back().overlap = Overlap::none;
  }

  const ActionTable& table_;
  std::vector<int> ranks_;
  int stages_a_copy_;
};

}  // namespace

std::string why_without_messages(const Schedule& schedule) {
  if (!schedule.learning().sources.empty()) return "takes outputs out of turn";
  if (schedule.learning().local_gradients != LocalGradients{})
    return "keeps gradients inside a stage";
  for (const Program& program : schedule.programs()) {
    for (std::size_t j = 0; j < program.items().size(); ++j) {
      if (std::string why = why_not(program.items(), j); !why.empty()) return why;
    }
  }
  return "";
}

ActionTable in_program_order(const ActionTable& table, int copies) {
  return MessagePlacer(table, copies).place();
}

ActionTable with_messages_in_order(const Schedule& schedule) {
  ActionTable table;
  for (const Program& program : schedule.programs()) table.rows.push_back(row_of(program.items()));
  return in_program_order(table, schedule.shape().copies);
}

std::optional<Violation> send_deadlock(const Schedule& schedule, Sends sends) {
  if (sends == Sends::buffered) return std::nullopt;
  if (const std::string why = why_without_messages(schedule); !why.empty()) {
    return Violation{"sends",
                     {},
                     -1,
                     -1,
                     fmt::format("the schedule {}: {} sends are for schedules whose ranks send and "
                                 "receive in turn; use --sends buffered",
                                 why, name(sends))};
  }
  std::optional<Violation> deadlock = send_deadlock(with_messages_in_order(schedule), sends);
  if (!deadlock) return reduction_deadlock(schedule);
  deadlock->column = -1;  // of a message that no cell of a file holds
  return deadlock;
}

}  // namespace unlatch::files
