// A training run that is saved as it goes, and goes on from where it was saved.
#pragma once

#include "exec/stage_runner.h"
#include "exec/stopping_run.h"
#include "tools/checkpoint_request.h"
#include "tools/test_curve.h"
#include "tools/train_journal.h"

namespace unlatch::tools {

struct CheckpointedRun {
  exec::StoppingRun run;
  CheckpointSummary summary;
};

/// What a checkpoint holds of a run.
struct RunState {
  exec::StageRunner& runner;
  TrainJournal& journal;
  TestCurve* curve = nullptr;  ///< null where there is none

  void visit(exec::StateVisitor& visitor) const;
};

/// Restores the state where that is asked for, runs the rest of the graph and saves the state on
/// the way. Throws Error for checkpoints that are not there, damaged or of another run, which is
/// said of each, and RunError when one cannot be saved.
CheckpointedRun run_with_checkpoints(const CheckpointRequest& request, const TaskGraph& graph,
                                     const RunState& state, const exec::CpuOptions& options);

}  // namespace unlatch::tools
