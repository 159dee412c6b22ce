// repeated: the schedule of one batch, batch after batch.
#pragma once

#include "schedules/schedule.h"

namespace unlatch::files {

/// Every rank runs its program once for each batch, on that batch's micro-batches.
Schedule repeated(const Schedule& one, int batches);

}  // namespace unlatch::files
