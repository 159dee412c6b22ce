// TrainingPlan: what was asked of a training run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/stage_runner.h"
#include "models/dataset.h"
#include "models/gradient_clip.h"
#include "models/model.h"
#include "models/optimizer.h"
#include "models/rate_schedule.h"
#include "schedules/registry.h"
#include "tools/arguments.h"
#include "tools/device_option.h"
#include "tools/run_clock.h"

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
  /// Batches behind which the test curve has points, the end of the run left out; empty: no curve.
  std::optional<std::vector<int>> test_points = {};
  std::optional<RunClock> clock = {};  ///< simulated; empty: only the measured one

  /// Samples of micro-batches, the most first.
  std::vector<int> piece_sizes() const { return batches.part_sizes(shape.batches); }
  int piece_size() const { return piece_sizes().front(); }
  bool clips_whole_model() const { return clip && !clip->of_stage; }
  double rate_of(int batch) const;
  /// Of all batches from one on.
  std::int64_t samples_from(int first) const;
};

/// Reads the flags and loads the data, for one of the command's schedules.
TrainingPlan read_plan(const Arguments& arguments, const ScheduleSpec& spec);

}  // namespace unlatch::tools
