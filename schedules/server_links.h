// with_server_links: the same graph with PUSH and PULL tasks between copies of a model and a
// server.
#pragma once

#include "schedules/transfers.h"

namespace unlatch {

/// A graph without a server, or whose links take no time, comes back as it is. One FIFO lane a copy
/// of a stage and direction, on the copy's rank. A copy has one buffer for what it sends and what
/// it is sent: its next PUSH waits for the server's update and the PULL before it (modern.md 5.5).
TaskGraph with_server_links(TaskGraph graph, const Links& links);

}  // namespace unlatch
