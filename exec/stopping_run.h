// A run that stops after every few batches, so that what lives between tasks can be saved.
#pragma once

#include <functional>

#include "exec/cpu_backend.h"

namespace unlatch::exec {

struct Stops {
  int done = 0;   ///< batches whose tasks have run before
  int every = 0;  ///< batches from one stop to the next, counted from the first batch; 0: no stops
  /// Called when the tasks that so many batches need have run, no other task has begun and no
  /// worker runs; neither at the end of the run nor where no batch of the run is over since.
  std::function<void(int batches)> at_stop = {};
};

/// Of the whole graph; times since the start of this run, pauses included. Tasks that have run
/// before get spans of no length at 0.
struct StoppingRun {
  Timeline timeline;
  int workers = 0;
};

/// As run() on a CpuBackend. A stop costs the time that the pipeline takes to run empty of the
/// batches before it and to fill again.
StoppingRun run_with_stops(const TaskGraph& graph, TaskRunner& runner, const CpuOptions& options,
                           const Stops& stops);

/// The tasks that have not run when so many batches are done.
std::vector<TaskId> tasks_after(const TaskGraph& graph, int done);

}  // namespace unlatch::exec
