// One training run and what comes out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/evaluate.h"
#include "models/partition.h"
#include "tools/checkpoint_request.h"
#include "tools/memory_report.h"
#include "tools/training.h"
#include "tools/training_plan.h"
#include "traces/memory.h"
#include "traces/metrics.h"

namespace unlatch::tools {

/// How well the network did in the middle of its training.
struct TestPoint {
  int batch = 0;  ///< the last that it had learned from
  exec::Evaluation test;
};

struct TrainingResult {
  Timeline timeline;
  TrainedModel trained;
  int workers = 0;
  std::vector<double> losses;    ///< of each batch, the mean over its samples
  std::vector<TestPoint> curve;  ///< as asked; the end is not among them
  exec::Evaluation test;
  MeasuredMemory memory;
  CheckpointSummary checkpoints;
};

/// --partition over the model's work, R counted where a stage has to pay for it.
std::vector<models::StageRange> work_partition(const Arguments& arguments, const TrainingPlan& plan,
                                               const TaskGraph& graph);
/// Bytes that each stage keeps, from the facts of its layers; those of its local head included.
MemorySizes memory_sizes_of(const TrainingPlan& plan, const LocalGradients& local,
                            const std::vector<models::StageRange>& ranges);
/// True when F and R of a rank share a worker, or a GPU, so that R costs time of its own.
bool recompute_is_paid(const TrainingPlan& plan, const TaskGraph& graph);

/// Trains and evaluates. Throws RunError when the loss is no number any more, a task fails or a
/// checkpoint cannot be saved.
TrainingResult train(const TrainingPlan& plan, const TaskGraph& graph,
                     const std::vector<models::StageRange>& ranges,
                     const CheckpointRequest& checkpoints);

}  // namespace unlatch::tools
