#include "exec/executor.h"

namespace unlatch::exec {

Timeline run(const TaskGraph& graph, Backend& backend) {
  for (const TaskId id : graph.ids()) {
    const LaneId lane = graph.task(id).lane_id();
    for (const Edge edge : graph.edges_into(id)) {
      if (edge.kind() == EdgeKind::order) continue;  // the lane itself is ordered
      if (edge.kind() == EdgeKind::beside) {
        backend.wait_start(lane, edge.from());
      } else {
        backend.wait_end(lane, edge.from());
      }
    }
    backend.launch(id);
  }
  return backend.synchronize();
}

}  // namespace unlatch::exec
