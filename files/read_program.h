// Reading the entries of one rank's program in the native form.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "schedules/schedule.h"

namespace unlatch::files {

/// Appends the entries to the program of the rank; what cannot be read becomes a problem, at most a
/// thousand of them. Throws Error when `entries` is no list.
void read_program(const nlohmann::json& entries, Rank rank, Schedule& schedule,
                  std::vector<Violation>& problems);

}  // namespace unlatch::files
