// FinishedRun: a training from its flags to its end, as train and compare report it.
#pragma once

#include <optional>
#include <vector>

#include "tools/simulation.h"
#include "tools/train_run.h"

namespace unlatch::tools {

struct FinishedRun {
  TrainingPlan plan;
  TaskGraph graph;
  std::vector<models::StageRange> ranges;
  TrainingResult result;
  sim::SteadyState steady;             ///< measured
  std::optional<double> predicted_ms;  ///< of a batch, in steady state, by a profile or a cluster
};

/// --clock, and the flags of clusters and stragglers that belong to it.
FlagGroup clock_flags();

/// A few batches of a run of which nothing is kept: what is made at the first use in a process then
/// costs no later run its time.
void warm_up(const Arguments& arguments, const ScheduleSpec& spec);

/// Reads the flags, trains, evaluates. Throws what read_plan() and train() throw.
FinishedRun run_training(const Arguments& arguments, const ScheduleSpec& spec);

}  // namespace unlatch::tools
