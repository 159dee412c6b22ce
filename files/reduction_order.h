// The order in which ranks take part in all-reduces.
#pragma once

#include <optional>

#include "schedules/schedule.h"

namespace unlatch::files {

/// Where copies of a model reduce their gradients (or weights) before every update and a reduction
/// blocks its rank until all copies have come: the shortest cycle of reductions, each behind the
/// next one on some rank. Reductions are matched by stage, never by place. Nothing where all ranks
/// agree.
std::optional<Violation> reduction_deadlock(const Schedule& schedule);

}  // namespace unlatch::files
