// Watched: a runner of tasks with a look at what they leave.
#pragma once

#include <functional>
#include <utility>

#include "exec/stream_order.h"
#include "exec/task_runner.h"

namespace unlatch::testing_support {

/// Looks at what is kept after every task that does anything.
class Watched : public exec::TaskRunner {
 public:
  using Look = std::function<void(TaskId)>;
  Watched(exec::TaskRunner& runner, const exec::StreamOrder& order, Look look)
      : runner_(runner), order_(order), look_(std::move(look)) {}
  void run(const Task& task, exec::Workspace& workspace) override {
    runner_.run(task, workspace);
    look_(*order_.current());
  }

 private:
  exec::TaskRunner& runner_;
  const exec::StreamOrder& order_;
  Look look_;
};

}  // namespace unlatch::testing_support
