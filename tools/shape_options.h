// Shape options: --stages, --ranks, --chunks, --microbatches, --batches, --replicas and --drain.
#pragma once

#include "schedules/registry.h"
#include "tools/command.h"

namespace unlatch::tools {

/// --stages where neither it nor --ranks is given.
inline constexpr int usual_stages = 4;

/// The shape that flags start from: that of a schedule file, else the usual one with `stages`.
Shape usual_shape(const ScheduleSpec& spec, int stages, int batches = 1);

/// Two of --stages, --ranks and --chunks give the third; with one of them the usual values help.
void read_stages(const Arguments& arguments, int usual_chunks, int otherwise, Shape& shape);

/// Reads --stages .. --drain alone. The schedule decides the usual number of stages a rank;
/// `synchronous`, that of all schedules of the command together, the usual number of batches.
Shape read_shape(const Arguments& arguments, const ScheduleSpec& spec, bool synchronous,
                 int stages = usual_stages);

/// Throws Error when the graph would have more tasks than a graph holds or than fit the memory of
/// this machine; says how many and what to lower.
void require_buildable(const Shape& shape, const ScheduleSpec& spec);

}  // namespace unlatch::tools
