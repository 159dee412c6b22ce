// The tasks CSV (contract.md, --tasks): one line a task, written and read back.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "traces/task_list.h"

namespace unlatch {

/// Columns task, kind, stage, batch, microbatch, rank, lane, start_ms, end_ms, reads_version,
/// writes_version. Hidden tasks are left out, sends are listed. Empty: the microbatch of an update
/// (its label has its own number), versions of sends, writes_version of all but updates. Lines
/// ordered by start, rank, lane, task, the last two as text. Same bytes every time.
void write_tasks_csv(std::ostream& out, const TaskGraph& graph, const Timeline& timeline);

/// The same into a file, whole or not at all; compressed when the name ends in .gz.
void write_tasks_csv(const std::string& path, const TaskGraph& graph, const Timeline& timeline);

/// Reads such text back. Throws Error with the source, line and column of the first fault.
TaskList parse_tasks_csv(std::string_view text, std::string_view source);

}  // namespace unlatch
