// with_blocking_sends: the same graph run by ranks that come to their messages one by one and wait
// for each of them.
#pragma once

#include "files/message_checks.h"
#include "schedules/graph.h"

namespace unlatch::files {

/// A rank runs its row of `table` in order. A message starts when its sender and its receiver have
/// both come to it, on a link that takes the sender's messages in the order of the row; then both
/// wait until it has ended. Of messages that are one call (grouped) each starts when both ranks
/// have come to their calls, and a call ends with the last of them. A send that the row waits for
/// elsewhere holds its rank up there. Updates and recomputations, which no table holds, come behind
/// the sends of the work before them and before the next receive.
///
/// `graph`: every message between two ranks is a send task (see with_transfers). `table`: all its
/// F, B, I and W, and all messages, without violations. Throws Error with the cycle where ranks
/// wait for each other.
TaskGraph with_blocking_sends(const TaskGraph& graph, const ActionTable& table, Sends sends);

}  // namespace unlatch::files
