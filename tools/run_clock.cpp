#include "tools/run_clock.h"

#include <algorithm>
#include <numeric>

#include "sim/steady_state.h"

namespace unlatch::tools {

RunClock clock_of(const TaskGraph& graph, const Timeline& timeline) {
  RunClock clock{.losses = std::vector<nanoseconds>(static_cast<std::size_t>(graph.shape().batches),
                                                    nanoseconds{0}),
                 .updates = sim::batch_ends(graph, timeline)};
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (task.op != Op::forward || !graph.shape().is_last(task.stage)) continue;
    nanoseconds& loss = clock.losses[static_cast<std::size_t>(batch_of(graph, task))];
    loss = std::max(loss, timeline[id].end);
  }
  std::partial_sum(clock.updates.begin(), clock.updates.end(), clock.updates.begin(),
                   [](nanoseconds a, nanoseconds b) { return std::max(a, b); });
  return clock;
}

}  // namespace unlatch::tools
