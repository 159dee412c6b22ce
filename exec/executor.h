// The executor: the same graph as the simulator's, really run.
#pragma once

#include "exec/backend.h"

namespace unlatch::exec {

/// Launches every task behind its predecessors and returns when each span was taken.
/// Throws what Backend::synchronize() throws.
Timeline run(const TaskGraph& graph, Backend& backend);

}  // namespace unlatch::exec
