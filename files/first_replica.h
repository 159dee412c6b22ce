// The schedule of one replica out of one that holds several.
#pragma once

#include <optional>

#include "schedules/schedule.h"

namespace unlatch::files {

/// The schedule that replicated() would make the whole one of; nothing where the replicas differ.
std::optional<Schedule> first_replica(const Schedule& whole);

}  // namespace unlatch::files
