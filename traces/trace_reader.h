// trace_reader: timed tasks from a Chrome trace or a tasks CSV, for `unlatch diff`.
#pragma once

#include <string>
#include <string_view>

#include "traces/task_list.h"

namespace unlatch {

/// Reads a Chrome trace or a tasks CSV, told apart by their first character, gzip or plain.
/// Throws Error that names the file and the place of the first fault.
TaskList read_tasks(const std::string& path);

/// Reads the text of a Chrome trace, {"traceEvents": [..]} or a bare array: its complete events
/// ("X") are the tasks. Times count microseconds whatever displayTimeUnit says. The rank is that
/// of the process name "rank N", else pid - 1. Names that are no task labels become the kind.
/// A warning names each pair of spans that half overlap on a track (viewers draw them wrongly).
/// Throws Error with the index of the event for one without name, ts, dur or pid, for a number
/// that is none, for a negative length; with the byte where the JSON breaks.
TaskList parse_chrome_trace(std::string_view text, std::string_view source);

}  // namespace unlatch
