// Where the programs of a schedule run its stages, and whether its placement agrees.
#pragma once

#include <optional>
#include <vector>

#include "schedules/schedule.h"

namespace unlatch::files {

/// By stage: the rank whose program has most of its tasks (the lowest of several); where it is
/// placed, for a stage without tasks.
std::vector<Rank> ranks_by_tasks(const Schedule& schedule);

/// Places every stage where its tasks are.
void place_by_tasks(Schedule& schedule);

/// The stages placed elsewhere than their tasks are, all in one violation.
std::optional<Violation> misplaced_stages(const Schedule& schedule);

}  // namespace unlatch::files
