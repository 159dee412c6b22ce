// The order in which a server takes the updates of several copies: that of simulated time.
#pragma once

#include <vector>

#include "schedules/schedule.h"
#include "schedules/transfers.h"
#include "sim/cost_model.h"

namespace unlatch::sim {

/// True for a schedule whose server has been told no order yet.
bool awaits_order(const Schedule& schedule);

/// The graph of such a schedule in which nothing orders the updates of different copies. Only for
/// order_of_arrival.
TaskGraph unordered_graph(Schedule schedule, const Links& links);

/// Which copy's update a server begins next, by stage of the model, when it takes them as they come
/// and one after the other; of those that come at the same time, the first copy's first.
std::vector<std::vector<int>> order_of_arrival(const TaskGraph& unordered, const CostModel& costs);

}  // namespace unlatch::sim
