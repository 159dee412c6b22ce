// TaskIndex: finds what a table says about one stage and micro-batch, in constant time.
#pragma once

#include <array>
#include <vector>

#include "files/actions.h"
#include "schedules/graph.h"

namespace unlatch::files {

/// One value for every kind of action with a micro-batch, every stage and every micro-batch.
template <class Value>
class TaskIndex {
 public:
  TaskIndex(int stages, int micro_batches, Value otherwise)
      : stages_(stages), micro_batches_(micro_batches), otherwise_(otherwise) {}

  bool covers(const Action& action) const {
    return takes_micro_batch(action.kind) && action.stage.value >= 0 &&
           action.stage.value < stages_ && action.micro_batch.value >= 0 &&
           action.micro_batch.value < micro_batches_;
  }
  /// The action must be covered.
  Value& operator[](const Action& action) {
    std::vector<Value>& values = values_[static_cast<std::size_t>(action.kind)];
    if (values.empty()) values.assign(std::size_t(stages_) * micro_batches_, otherwise_);
    return values[place(action)];
  }
  /// The value of an action, or the one for those never set.
  Value at(const Action& action) const {
    if (!covers(action)) return otherwise_;
    const std::vector<Value>& values = values_[static_cast<std::size_t>(action.kind)];
    return values.empty() ? otherwise_ : values[place(action)];
  }

 private:
  std::size_t place(const Action& action) const {
    return std::size_t(action.stage.value) * micro_batches_ + action.micro_batch.value;
  }
  int stages_;
  int micro_batches_;
  Value otherwise_;
  std::array<std::vector<Value>, static_cast<std::size_t>(ActionKind::unshard)> values_;
};

/// The same stage and micro-batch, another kind.
inline Action as(ActionKind kind, Action action) {
  action.kind = kind;
  return action;
}
inline Action as(ActionKind kind, Action action, int stages_further) {
  action.kind = kind;
  action.stage = action.stage + stages_further;
  return action;
}

/// One more than the largest stage (micro-batch) that any action names.
inline int stages_in(const ActionTable& table) {
  int stages = 0;
  for (const ActionRow& row : table.rows) {
    for (const Action& action : row) stages = std::max(stages, action.stage.value + 1);
  }
  return stages;
}
inline int micro_batches_in(const ActionTable& table) {
  int micro_batches = 0;
  for (const ActionRow& row : table.rows) {
    for (const Action& action : row) {
      micro_batches = std::max(micro_batches, action.micro_batch.value + 1);
    }
  }
  return micro_batches;
}

/// The rank of each stage that computes anything; -1 for others.
inline std::vector<int> ranks_of_stages(const ActionTable& table) {
  std::vector<int> ranks(stages_in(table), -1);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (const Action& action : table.rows[r]) {
      if (is_compute(action.kind)) ranks[action.stage.value] = static_cast<int>(r);
    }
  }
  return ranks;
}

}  // namespace unlatch::files
