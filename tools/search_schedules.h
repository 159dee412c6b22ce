// Search schedules: which schedules a search tries, in which of their variants.
#pragma once

#include <vector>

#include "schedules/registry.h"
#include "tools/arguments.h"

namespace unlatch::tools {

/// Those of --schedule, or all that follow back-propagation's gradients, however old. Without keys
/// they come in their variants of order, form and recomputation, which learn the same.
std::vector<ScheduleSpec> schedules_to_try(const Arguments& arguments);

/// The schedule with each stage so many updates behind the next one, for each of `steps`; as it is
/// where it has no such key, or says it already.
std::vector<ScheduleSpec> with_staleness(const ScheduleSpec& spec, int stages,
                                         const std::vector<int>& steps);

}  // namespace unlatch::tools
