// What is said of a task that failed.
#pragma once

#include <exception>

#include "schedules/error.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// Names rank, task and reason.
RunError task_failure(const TaskGraph& graph, const Task& task, const std::exception& reason);

}  // namespace unlatch::exec
