// One training run: what was asked, what came out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/evaluate.h"
#include "exec/stage_runner.h"
#include "models/dataset.h"
#include "models/gradient_clip.h"
#include "models/model.h"
#include "models/optimizer.h"
#include "models/partition.h"
#include "models/rate_schedule.h"
#include "schedules/registry.h"
#include "tools/arguments.h"
#include "tools/checkpoint_request.h"
#include "tools/device_option.h"
#include "tools/memory_report.h"
#include "tools/run_clock.h"
#include "tools/training.h"
#include "traces/memory.h"
#include "traces/metrics.h"

namespace unlatch::tools {

/// Everything that decides a run.
struct TrainingPlan {
  ScheduleSpec spec;
  Shape shape;  ///< the schedule's own
  models::Model model;
  models::DataSplit data;
  std::string data_name;
  int batch_size = 0;
  models::BatchSizes batches{1, {}};
  models::OptimizerSpec optimizer;
  models::RateSchedule rate;  ///< of a batch of batch_size samples
  double rate_power = 0;      ///< of a batch's size over batch_size, as the rate goes with it
  std::optional<models::GradientClip> clip = {};
  std::uint64_t seed = 0;
  int threads = 0;                         ///< 0: as many as lanes or cores
  std::optional<AskedDevice> device = {};  ///< empty: the CPU
  models::Augmentation augmentation = {};
  exec::StatisticUpdates statistics = exec::StatisticUpdates::forward;
  std::optional<std::string> metrics_file;
  int evaluate_every = 0;              ///< batches between points of the test curve; 0: none
  std::optional<RunClock> clock = {};  ///< simulated; empty: only the measured one

  /// Samples of micro-batches, the most first.
  std::vector<int> piece_sizes() const { return batches.part_sizes(shape.batches); }
  int piece_size() const { return piece_sizes().front(); }
  double rate_of(int batch) const;
  double mean_batch_size() const;
};

/// How well the network did in the middle of its training.
struct TestPoint {
  int batch = 0;  ///< the last that it had learned from
  exec::Evaluation test;
};

struct TrainingResult {
  Timeline timeline;
  TrainedModel trained;
  int workers = 0;
  double last_loss = 0;          ///< mean of the last batch
  std::vector<TestPoint> curve;  ///< as asked; the end is not among them
  exec::Evaluation test;
  MeasuredMemory memory;
  CheckpointSummary checkpoints;
};

/// Reads the flags and loads the data, for one of the command's schedules.
TrainingPlan read_plan(const Arguments& arguments, const ScheduleSpec& spec);
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
