#include "files/queue_time.h"

#include <algorithm>

#include "files/task_index.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

constexpr int not_done = -1;

/// One ordered queue of a rank.
struct Queue {
  std::vector<const Action*> actions;
  std::size_t next = 0;
  int free_at = 0;

  bool finished() const { return next == actions.size(); }
};

class QueueTimer {
 public:
  explicit QueueTimer(const ActionTable& table)
      : done_(stages_in(table), micro_batches_in(table), not_done),
        stands_(stages_in(table), micro_batches_in(table), false) {
    for (const ActionRow& row : table.rows) {
      Queue& work = queues_.emplace_back();
      Queue messages;
      for (const Action& action : row) {
        if (!is_compute(action.kind) && !is_message(action.kind)) continue;
        (is_compute(action.kind) ? work : messages).actions.push_back(&action);
        stands_[action] = true;
      }
      queues_.push_back(std::move(messages));
    }
  }

  int run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (Queue& queue : queues_) progress = advance(queue) || progress;
    }
    int end = 0;
    for (const Queue& queue : queues_) {
      require(queue.finished(), "the rows wait for each other: {} cannot run",
              queue.finished() ? "" : label(*queue.actions[queue.next]));
      end = std::max(end, queue.free_at);
    }
    return end;
  }

 private:
  bool advance(Queue& queue) {
    const std::size_t before = queue.next;
    while (!queue.finished()) {
      const Action& action = *queue.actions[queue.next];
      const int ready = ready_at(action);
      if (ready == not_done) break;
      queue.free_at = std::max(queue.free_at, ready) + cost(action.kind);
      done_[action] = queue.free_at;
      ++queue.next;
    }
    return queue.next != before;
  }

  static int cost(ActionKind kind) {
    if (is_message(kind)) return 0;
    return kind == ActionKind::backward ? 2 : 1;
  }

  /// The end of an action that stands in the table; 0 for one that it leaves out.
  int end_of(const Action& action) const { return stands_.at(action) ? done_.at(action) : 0; }

  /// The later of two ends, if both are known.
  static int both(int a, int b) {
    return a == not_done || b == not_done ? not_done : std::max(a, b);
  }

  /// B, or the I that stands for it.
  int backward_end(const Action& action, int stages_further) const {
    return both(end_of(as(ActionKind::backward, action, stages_further)),
                end_of(as(ActionKind::backward_input, action, stages_further)));
  }

  int ready_at(const Action& action) const {
    switch (action.kind) {
      case ActionKind::forward: {
        const Action receive = as(ActionKind::receive_forward, action);
        return end_of(stands_.at(receive) ? receive : as(ActionKind::forward, action, -1));
      }
      case ActionKind::backward:
      case ActionKind::backward_input: {
        const Action receive = as(ActionKind::receive_backward, action);
        const int tape = end_of(as(ActionKind::forward, action));
        return both(tape, stands_.at(receive) ? end_of(receive) : backward_end(action, 1));
      }
      case ActionKind::backward_weight:
        return end_of(as(ActionKind::backward_input, action));
      case ActionKind::send_forward:
        return end_of(as(ActionKind::forward, action));
      case ActionKind::send_backward:
        return backward_end(action, 0);
      default:
        return end_of(partner(action));
    }
  }

  std::vector<Queue> queues_;       ///< work and messages of each rank in turn
  TaskIndex<std::int32_t> done_;    ///< its end
  TaskIndex<std::uint8_t> stands_;  ///< whether it stands in the table
};

}  // namespace

int queue_time(const ActionTable& table) { return QueueTimer(table).run(); }

}  // namespace unlatch::files
