// draw: a timeline as text, one row a lane, one column a unit.
#pragma once

#include <string>

#include "traces/timeline.h"

namespace unlatch {

/// Rows "rank 0" and, for a second compute lane, "rank 0 R"; links and zero-length tasks are not
/// drawn. A column shows the label of a task that starts in it, `-` while one goes on, `.` when
/// the lane is idle in all of it. Labels are "F0"; with several stages on a rank, "2F0".
/// When times are no multiples of the unit a task takes every column it touches; of several
/// tasks that start in one column the first is named, with a `+` for the others ("F0+").
/// Throws Error for a unit below 1 ns and for a drawing of more than a million cells.
std::string draw(const TaskGraph& graph, const Timeline& timeline, nanoseconds unit);

}  // namespace unlatch
