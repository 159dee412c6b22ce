// TaskList: timed tasks without their graph, as files hold them and `unlatch diff` compares them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/timeline.h"

namespace unlatch {

/// One task and when it ran; -1 stands for a number that does not apply or is not known.
struct TimedTask {
  std::string label;  ///< "2F0"
  std::string kind;   ///< "F", "SEND_B", ..
  int stage = -1;
  int batch = -1;
  int micro_batch = -1;
  int rank = 0;
  std::string lane;  ///< name of its queue
  Span span;
  friend bool operator==(const TimedTask&, const TimedTask&) = default;
};

struct TaskList {
  std::string source;                    ///< file name, or what else a message should call it
  std::string schedule;                  ///< "" when the file does not say
  std::vector<std::string> stage_names;  ///< empty when the file has none
  std::vector<TimedTask> tasks;
  std::vector<std::string> warnings;  ///< what is odd about the file, one sentence each
};

/// The tasks of a run that are listed in files: all but the hidden ones, ordered by start, rank,
/// lane name and label (the last two as text).
TaskList task_list(const TaskGraph& graph, const Timeline& timeline, std::string_view source);

/// Throws Error when the lengths of all tasks together exceed the nanoseconds of 64 bits.
void require_summable(const TaskList& list);

/// The graph's tasks that are listed in files, in that order.
std::vector<TaskId> listed_tasks(const TaskGraph& graph, const Timeline& timeline);

/// True for work of a rank itself (F, B, I, W, R, U), false for messages and collectives.
bool is_compute_kind(std::string_view kind);

/// True for SEND_F, RECV_F, SEND_B and RECV_B.
bool is_transfer_kind(std::string_view kind);

/// The parts of a label such as "2F0" or "F0"; false when the text has another form.
bool split_label(std::string_view label, int& stage, std::string& kind, int& number);

}  // namespace unlatch
