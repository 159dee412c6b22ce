// with_transfers: the same graph with a send task on a link wherever data crosses ranks.
#pragma once

#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// Which links take time.
struct Links {
  std::vector<bool> activation;  ///< index k: between stages k and k+1
  std::vector<bool> gradient;    ///< likewise
  std::vector<bool> push = {};   ///< index k: from stage k to its server, where it has one
  std::vector<bool> pull = {};   ///< back
  /// A rank sends activations and gradients one after the other, in the order of its program.
  bool one_queue_a_rank = false;
};

/// Replaces each activation or gradient edge between ranks, on a boundary with such a link, by
/// edge -> send task -> edge. One FIFO lane a direction and boundary on the sender's rank, or one
/// in all. The output error of direct feedback leaves the last stage once for all others, on its
/// link back. A barrier then also waits for the messages of its iteration. Where copies of a model
/// have a server, PUSH and PULL tasks are added in the same way.
TaskGraph with_transfers(const TaskGraph& graph, const Links& links);

}  // namespace unlatch
