// with_transfers: the same graph with a send task on a link wherever data crosses ranks.
#pragma once

#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// Which boundaries have a link that takes time; index k is between stages k and k+1.
struct Links {
  std::vector<bool> activation;
  std::vector<bool> gradient;
};

/// Replaces each activation or gradient edge between ranks, on a boundary with such a link, by
/// edge -> send task -> edge. One FIFO lane a direction and boundary, on the sender's rank. A
/// barrier then also waits for the messages of its iteration.
TaskGraph with_transfers(const TaskGraph& graph, const Links& links);

}  // namespace unlatch
