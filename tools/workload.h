// Workload: the flags that say what is simulated (shape, costs, memory, stragglers), read once and
// shared by show, simulate and compare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/registry.h"
#include "sim/stage_costs.h"
#include "sim/stragglers.h"
#include "tools/command.h"
#include "traces/memory.h"

namespace unlatch::tools {

/// Names, values and help of the flags, for the commands that take them.
FlagGroup shape_flags();
FlagGroup cost_flags();
FlagGroup memory_flags();
FlagGroup straggler_flags();
FlagGroup measured_flags();

struct Workload {
  Shape shape;          ///< as asked; ScheduleSpec::effective() makes a schedule's own
  sim::StageTimes times;  ///< of one micro-batch
  MemorySizes sizes;      ///< of one micro-batch
  std::optional<std::int64_t> memory_limit;
  std::vector<double> slow;  ///< one factor a rank
  sim::Straggler straggler;
  std::uint64_t seed = 0;
  int runs = 1;

  /// Costs of one task of a schedule: M times as much where it runs a batch in one piece.
  sim::StageTimes times_for(const ScheduleSpec& spec) const;
  MemorySizes sizes_for(const ScheduleSpec& spec) const;
};

/// Reads --stages .. --drain alone. The schedules decide how many batches are the default.
Shape read_shape(const Arguments& arguments, const std::vector<ScheduleSpec>& specs);

/// Reads and checks all of them.
Workload read_workload(const Arguments& arguments, const std::vector<ScheduleSpec>& specs);

/// Throws Error when the graph would have more tasks than a graph holds or than fit the memory of
/// this machine; says how many and what to lower.
void require_buildable(const Shape& shape, const ScheduleSpec& spec);

/// The schedules of --schedule, in the order given. Throws Error when there is none, or more than
/// `most` (0: any number).
std::vector<ScheduleSpec> asked_schedules(const Arguments& arguments, int most);

}  // namespace unlatch::tools
