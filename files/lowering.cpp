#include "files/lowering.h"

#include <algorithm>
#include <span>

#include "files/task_index.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

/// A cell: one action, or all that overlap in it.
using Block = std::span<const Action>;

Block block_at(const ActionRow& row, std::size_t first) {
  std::size_t end = first + 1;
  while (end < row.size() && row[end].overlap == Overlap::next) ++end;
  return {row.data() + first, end - first};
}

class MessageAdder {
 public:
  explicit MessageAdder(const ActionTable& table)
      : table_(table),
        ranks_(ranks_of_stages(table)),
        emitted_(stages_in(table), micro_batches_in(table), -1),
        next_(table.rows.size(), 0) {
    result_.rows.resize(table.rows.size());
  }

  ActionTable add() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t r = 0; r < table_.rows.size(); ++r) {
        if (next_[r] < table_.rows[r].size()) progress = visit(static_cast<int>(r)) || progress;
      }
    }
    for (std::size_t r = 0; r < table_.rows.size(); ++r) {
      require(next_[r] == table_.rows[r].size(),
              "the rows wait for each other: row {} cannot go on to {}", r,
              next_[r] < table_.rows[r].size() ? label(table_.rows[r][next_[r]]) : "");
    }
    return std::move(result_);
  }

 private:
  int last_stage() const { return static_cast<int>(ranks_.size()) - 1; }

  /// Handles the head of a row, if what it needs is there.
  bool visit(int rank) {
    const Block block = block_at(table_.rows[rank], next_[rank]);
    if (!std::ranges::all_of(block, [&](const Action& a) { return is_ready(a, rank); })) {
      return false;
    }
    for (const Action& action : block) emit(action, rank);
    for (const Action& action : block) send(action, rank);
    next_[rank] += block.size();
    return true;
  }

  bool has(const Action& action, int rank) const { return emitted_.at(action) == rank; }

  bool is_ready(const Action& action, int rank) const {
    if (action.kind == ActionKind::forward) {
      return action.stage.value == 0 || has(as(ActionKind::receive_forward, action), rank) ||
             has(as(ActionKind::forward, action, -1), rank);
    }
    if (!gives_input_gradient(action.kind)) return true;
    return action.stage.value == last_stage() ||
           has(as(ActionKind::receive_backward, action), rank) ||
           has(as(ActionKind::backward_input, action, 1), rank) ||
           has(as(ActionKind::backward, action, 1), rank);
  }

  void emit(const Action& action, int rank) {
    ActionRow& row = result_.rows[rank];
    row.push_back(action);
    row.back().column =
        row.size() == 1 ? 0
                        : row[row.size() - 2].column + (action.overlap == Overlap::next ? 0 : 1);
    if (emitted_.covers(action)) emitted_[action] = rank;
  }

  void send(const Action& action, int rank) {
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !gives_input_gradient(action.kind)) return;
    const int neighbour = action.stage.value + (forward ? 1 : -1);
    if (neighbour < 0 || neighbour > last_stage()) return;
    const int receiver = ranks_[neighbour];
    if (receiver < 0 || receiver == rank) return;
    Action message = as(forward ? ActionKind::send_forward : ActionKind::send_backward, action);
    message.overlap = Overlap::none;
    emit(message, rank);
    emit(partner(message), receiver);
  }

  const ActionTable& table_;
  std::vector<int> ranks_;
  TaskIndex<std::int32_t> emitted_;  ///< the rank whose row has the action already
  std::vector<std::size_t> next_;
  ActionTable result_;
};

/// At each place of a row the first three stages that are used from there on.
std::vector<std::vector<Stage>> next_stages(const ActionRow& row) {
  constexpr std::size_t most_active = 3;
  std::vector<std::vector<Stage>> next(row.size());
  std::vector<Stage> order;
  for (std::size_t j = row.size(); j-- > 0;) {
    std::erase(order, row[j].stage);
    order.insert(order.begin(), row[j].stage);
    if (order.size() > most_active) order.pop_back();
    next[j] = order;
  }
  return next;
}

void add(ActionRow& row, ActionKind kind, Stage stage) {
  Action action;
  action.kind = kind;
  action.stage = stage;
  row.push_back(action);
}

ActionRow with_shards(const ActionRow& row) {
  const std::vector<std::vector<Stage>> next = next_stages(row);
  ActionRow result;
  std::vector<Stage> active;
  for (std::size_t j = 0; j < row.size(); ++j) {
    if (row[j].overlap != Overlap::next && active != next[j]) {
      std::ranges::sort(active);  // frees in the order of the stages, fetches in that of their use
      for (const Stage k : active) {
        if (std::ranges::find(next[j], k) == next[j].end()) add(result, ActionKind::reshard, k);
      }
      for (const Stage k : next[j]) {
        if (std::ranges::find(active, k) == active.end()) add(result, ActionKind::unshard, k);
      }
      active = next[j];
    }
    result.push_back(row[j]);
  }
  std::ranges::sort(active);
  for (const Stage k : active) add(result, ActionKind::reshard, k);
  return result;
}

ActionRow with_reductions(const ActionRow& row, int micro_batches) {
  ActionRow result;
  std::vector<int> gradients;
  for (std::size_t j = 0; j < row.size();) {
    const Block block = block_at(row, j);
    result.insert(result.end(), block.begin(), block.end());
    for (const Action& action : block) {
      if (action.kind != ActionKind::backward && action.kind != ActionKind::backward_weight) {
        continue;
      }
      const auto k = static_cast<std::size_t>(action.stage.value);
      if (gradients.size() <= k) gradients.resize(k + 1);
      if (++gradients[k] == micro_batches) add(result, ActionKind::reduce_gradient, action.stage);
    }
    j += block.size();
  }
  return result;
}

class StepCounter {
 public:
  StepCounter(const ActionTable& table, const Shape& shape)
      : table_(table),
        last_stage_(shape.stages - 1),
        done_(shape.stages, shape.micro_batches, -1),
        next_(table.rows.size(), 0) {}

  int count() {
    for (const ActionRow& row : table_.rows) {
      for (const Action& action : row) {
        if (action.overlap == Overlap::none && done_.covers(action)) continue;
        fail("steps are counted for F, B, I, W and messages, not for {}",
             action.overlap == Overlap::none ? label(action) : "OVERLAP_F_B");
      }
    }
    int steps = 0;
    while (!finished()) {
      take_step();
      ++steps;
    }
    return steps;
  }

 private:
  bool finished() const {
    for (std::size_t r = 0; r < next_.size(); ++r) {
      if (next_[r] < table_.rows[r].size()) return false;
    }
    return true;
  }

  /// Two passes: a rank that idled in the first may have become ready by what others ran in it.
  void take_step() {
    std::vector<bool> ran(next_.size());
    bool progress = false;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t r = 0; r < next_.size(); ++r) {
        if (ran[r] || next_[r] == table_.rows[r].size()) continue;
        const Action& head = table_.rows[r][next_[r]];
        if (!is_ready(head, static_cast<int>(r))) continue;
        done_[head] = static_cast<int>(r);
        ++next_[r];
        ran[r] = true;
        progress = true;
      }
      if (pass == 0) {
        require(progress, "the rows wait for each other: no rank can take the next step");
      }
    }
  }

  bool has(const Action& action, int rank) const { return done_.at(action) == rank; }
  bool has_anywhere(const Action& action) const { return done_.at(action) >= 0; }

  bool is_ready(const Action& action, int rank) const {
    switch (action.kind) {
      case ActionKind::forward:
        return action.stage.value == 0 || has(as(ActionKind::receive_forward, action), rank) ||
               has(as(ActionKind::forward, action, -1), rank);
      case ActionKind::backward:
      case ActionKind::backward_input:
        return action.stage.value == last_stage_ ||
               has(as(ActionKind::receive_backward, action), rank) ||
               has(as(ActionKind::backward_input, action, 1), rank) ||
               has(as(ActionKind::backward, action, 1), rank);
      case ActionKind::send_forward:
        return has(as(ActionKind::forward, action), rank);
      case ActionKind::send_backward:
        return has(as(ActionKind::backward, action), rank) ||
               has(as(ActionKind::backward_input, action), rank);
      case ActionKind::receive_forward:
      case ActionKind::receive_backward:
        return has_anywhere(partner(action));
      case ActionKind::wait_send_forward:
      case ActionKind::wait_send_backward: {
        const Action send = awaited_send(action);
        return has(send, rank) && has_anywhere(partner(send));
      }
      default:
        return true;
    }
  }

  const ActionTable& table_;
  int last_stage_;
  TaskIndex<std::int32_t> done_;  ///< the rank that ran it
  std::vector<std::size_t> next_;
};

}  // namespace

ActionTable with_messages(const ActionTable& table) { return MessageAdder(table).add(); }

ActionTable with_sharding(const ActionTable& table, int micro_batches) {
  ActionTable result;
  for (const ActionRow& row : table.rows) {
    result.rows.push_back(with_reductions(with_shards(row), micro_batches));
  }
  return result;
}

int unit_steps(const ActionTable& table, const Shape& shape) {
  return StepCounter(table, shape).count();
}

}  // namespace unlatch::files
