// Training options and helpers that several commands share.
#pragma once

#include <string>
#include <vector>

#include "exec/stage_runner.h"
#include "models/augmentation.h"
#include "models/model.h"
#include "models/optimizer.h"
#include "models/rate_schedule.h"
#include "models/safetensors.h"
#include "schedules/graph.h"
#include "tools/arguments.h"

namespace unlatch::tools {

inline constexpr std::string_view optimizer_help =
    "sgd, momentum, nesterov, sum, adagrad, adadelta, rmsprop, adam, adamw, adamax, nadam, "
    "amsgrad, radam, lars or lamb, with keys as in momentum:momentum=0.9 (sgd)";
/// --optimizer with --weight-decay.
models::OptimizerSpec asked_optimizer(const Arguments& arguments);
/// --lr-scaling: the power of a batch's size that the rate goes with; 0 without it.
double asked_rate_power(const Arguments& arguments);
/// --lr and --lr-schedule; with --lr-scaling the rate is that of --lr-base-batch samples a batch.
models::RateSchedule asked_rate(const Arguments& arguments, int batch_size);
/// Throws Error for an optimizer with momentum where compressed gradients bring their own, and for
/// one whose weights cannot be predicted where the schedule predicts them.
void require_optimizer_fits(const models::OptimizerSpec& optimizer, const Learning& learning);
/// --augment; none without it.
models::Augmentation asked_augmentation(const Arguments& arguments);
/// --batch-norm-updates.
exec::StatisticUpdates asked_statistics(const Arguments& arguments);
/// --threads; 0: as many as lanes or cores.
int asked_threads(const Arguments& arguments);
/// Says on standard error when the workers that so many threads give for this graph, each with its
/// maths threads, exceed the cores by more than the ranks.
void warn_of_too_many_threads(int threads, const TaskGraph& graph);

/// Flat weights and running statistics of a whole model, as train leaves them and eval reads them.
struct TrainedModel {
  std::vector<float> weights;
  std::vector<float> statistics;
};

/// One tensor a parameter, named as in models::parameters(), and "<layer>.running_statistics".
models::TensorFile tensor_file(const models::Model& model, const TrainedModel& trained);
/// Throws Error when the file holds other tensors or shapes than the model.
TrainedModel read_trained(const models::Model& model, const std::string& path);

}  // namespace unlatch::tools
