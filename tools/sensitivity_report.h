// Sensitivity report: what simulate --sensitivity prints.
#pragma once

#include <string>

#include "sim/sensitivity.h"
#include "tools/json_output.h"
#include "tools/simulation.h"

namespace unlatch::tools {

/// The share by which each part is made faster.
inline constexpr double faster_by = 0.1;

/// Of run 0 where costs are random.
std::vector<sim::Sensitivity> sensitivities_of(const ScheduleSpec& spec, const Workload& workload,
                                               const Simulation& simulation);

/// {"faster":0.1,"parts":[{"part":"1B",..}]}, the largest gain first.
Json sensitivity_json(const Simulation& simulation, const std::vector<sim::Sensitivity>& all);
/// The same as a table of the parts on the critical path.
std::string sensitivity_text(const Simulation& simulation,
                             const std::vector<sim::Sensitivity>& all);

}  // namespace unlatch::tools
