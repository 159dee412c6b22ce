// TaskRunner: what a CPU backend does for each task; the stages' side of the executor.
#pragma once

#include "exec/stage_module.h"
#include "schedules/task.h"

namespace unlatch::exec {

class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  /// Called once for each task that is not hidden, on any worker, after everything it waits for.
  /// Tasks of different lanes may run at the same time, each with its worker's workspace. A throw
  /// ends the run.
  virtual void run(const Task& task, Workspace& workspace) = 0;
};

}  // namespace unlatch::exec
