// Messages: which task's result another rank's task waits for; the arrows of a trace.
#pragma once

#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// One activation or gradient that crosses ranks, from the task that makes it to the one that
/// uses it.
struct Message {
  TaskId from;
  TaskId to;
  friend bool operator==(const Message&, const Message&) = default;
};

/// The message a visible compute task receives from another rank, if any, found in time
/// O(edges) once and O(1) each. Queue places and sends on the way are looked through: a message
/// that is pushed, sent and popped is still one, from its F (or B, I) to the next stage's.
class Messages {
 public:
  explicit Messages(const TaskGraph& graph);
  /// Where the task's input comes from; TaskId{-1} when not from another rank.
  TaskId source(TaskId to) const { return source_[to.value]; }
  /// All of them, in the order of their receivers.
  std::vector<Message> all() const;

 private:
  std::vector<TaskId> source_;
};

}  // namespace unlatch
