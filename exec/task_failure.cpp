#include "exec/task_failure.h"

#include <new>

namespace unlatch::exec {

RunError task_failure(const TaskGraph& graph, const Task& task, const std::exception& reason) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&reason) != nullptr;
  return RunError(
      fmt::format("rank {}, task {}: {}", graph.rank(task).value, label(task),
                  memory ? "out of memory; train with smaller micro-batches or on fewer replicas"
                         : reason.what()));
}

}  // namespace unlatch::exec
