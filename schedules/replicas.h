// Data parallelism: the same schedule on several sets of ranks, one share of every batch each.
#pragma once

#include "schedules/schedule.h"

namespace unlatch {

/// The shape that one replica runs.
Shape one_replica(Shape shape);

/// Puts `replicas` of a schedule side by side: replica r has the ranks, stages and micro-batches of
/// every batch that follow those of replica r-1. The builder joins their gradients before every
/// update.
Schedule replicated(Schedule one, int replicas);

}  // namespace unlatch
