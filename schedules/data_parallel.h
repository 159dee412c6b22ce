// What the methods of data parallelism share: the pipeline inside each replica, and a server.
//
// Replicas come from --replicas, as for every other schedule; these methods say how they agree.
#pragma once

#include <string>

#include "schedules/schedules.h"

namespace unlatch {

/// inside=NAME: the synchronous schedule that every replica runs, with its default keys.
Key pipeline_inside();

/// Throws Error for a shape that this schedule cannot run.
void require_inside(const Shape& shape, const Options& options);
/// That schedule under the method's own name.
Schedule schedule_inside(std::string specification, const Shape& shape, const Options& options);
Promise promise_inside(const Shape& shape, const Options& options);

/// Of a server that takes the replicas' gradients in turn: all others' updates come between.
void promise_served(const Shape& whole, int bound, Promise& promise);

}  // namespace unlatch
