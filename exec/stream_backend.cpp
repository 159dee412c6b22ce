#include "exec/stream_backend.h"

#include "exec/cancelled.h"
#include "exec/task_failure.h"
#include "schedules/error.h"

namespace unlatch::exec {

StreamBackend::StreamBackend(const TaskGraph& graph, StreamOrder& order, TaskRunner& runner,
                             const std::atomic<bool>* cancel)
    : graph_(graph), order_(order), runner_(runner), cancel_(cancel) {}

void StreamBackend::launch(TaskId id) {
  if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) throw Cancelled();
  const Task& task = graph_.task(id);
  order_.begin(id);
  try {
    if (is_work(task.op) || task.has(learns)) runner_.run(task, workspace_);
    order_.end();
  } catch (const std::exception& error) {
    if (order_.has_failed()) throw;  // about an earlier task, which it names
    throw task_failure(graph_, task, error);
  }
}

}  // namespace unlatch::exec
