// A simulation that holds no graph and no timeline: tasks pass by, figures remain.
#pragma once

#include "schedules/schedule.h"
#include "sim/cost_model.h"
#include "traces/run_meter.h"

namespace unlatch::sim {

/// The figures of run(with_transfers(schedule.build(), links), costs). Time grows with tasks,
/// memory with ranks and with what is in flight at once, not with micro-batches or batches.
/// `sizes` are those of the schedule's stages. Throws Error for a schedule with a server, for costs
/// with traffic, and where run() would.
RunSummary run_streamed(const Schedule& schedule, const CostModel& costs, const Links& links,
                        const MemorySizes& sizes);

}  // namespace unlatch::sim
