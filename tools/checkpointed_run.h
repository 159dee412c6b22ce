// A training run that is saved as it goes, and goes on from where it was saved.
#pragma once

#include "exec/stage_runner.h"
#include "exec/stopping_run.h"
#include "tools/checkpoint_request.h"
#include "tools/train_journal.h"

namespace unlatch::tools {

struct CheckpointedRun {
  exec::StoppingRun run;
  CheckpointSummary summary;
};

/// Restores runner and journal where that is asked for, runs the rest of the graph and saves both
/// on the way. Throws Error for checkpoints that are not there, damaged or of another run, which is
/// said of each, and RunError when one cannot be saved.
CheckpointedRun run_with_checkpoints(const CheckpointRequest& request, const TaskGraph& graph,
                                     exec::StageRunner& runner, TrainJournal& journal,
                                     const exec::CpuOptions& options);

}  // namespace unlatch::tools
