// Layer costs: a profile or a model on a cluster as the search wants it, split by split.
#pragma once

#include <memory>
#include <string>

#include "sim/search.h"
#include "tools/workload.h"

namespace unlatch::tools {

/// Costs under one schedule, the same that simulate takes for the split. `partition` is the flag:
/// with anything but "auto", that split is the given one. `tasks` must outlive the result. Throws
/// Error for sizes, places or a partition that do not fit.
sim::LayerCosts layer_costs(const std::shared_ptr<const LayerWorkload>& layers,
                            const std::string& partition, const ScheduleSpec& spec,
                            const Shape& shape, const TaskGraph& tasks);

}  // namespace unlatch::tools
