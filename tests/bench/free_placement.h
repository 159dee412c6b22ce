// FreePlacement: a task graph run by another library on two workers, each task on any of them. Not
// the same work as ours, where a rank's tasks stay on one worker; a figure to know, not to match.
#pragma once

#include <functional>
#include <memory>

#include "schedules/graph.h"

namespace unlatch::bench {

class FreePlacement {
 public:
  virtual ~FreePlacement() = default;
  /// Runs all tasks once.
  virtual void run() = 0;
};

/// Each calls `work` once a task; null where the library was not found.
std::unique_ptr<FreePlacement> taskflow(const TaskGraph& graph, const std::function<void()>& work);
std::unique_ptr<FreePlacement> one_tbb(const TaskGraph& graph, const std::function<void()>& work);

}  // namespace unlatch::bench
