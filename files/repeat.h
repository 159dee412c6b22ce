// repeated: the schedule of one batch, batch after batch.
#pragma once

#include "files/actions.h"
#include "schedules/schedule.h"

namespace unlatch::files {

/// Every rank runs its program once for each batch, on that batch's micro-batches.
Schedule repeated(const Schedule& one, int batches);

/// The table of one batch and one replica for all batches and replicas of a shape: replicas side by
/// side, as replicated() puts them.
ActionTable repeated(const ActionTable& one, const Shape& whole);

}  // namespace unlatch::files
