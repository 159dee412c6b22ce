#include "tools/training_plan.h"

#include <algorithm>
#include <cmath>

#include "models/transformer.h"
#include "schedules/error.h"
#include "tools/model_options.h"
#include "tools/placed_errors.h"
#include "tools/shape_options.h"
#include "tools/training.h"

namespace unlatch::tools {
namespace {

/// --epochs or --steps as batches.
int asked_batches(const Arguments& arguments, const models::BatchSizes& sizes) {
  require(!arguments.has("epochs") || !arguments.has("steps"),
          "{} and {} both say how long to train; give one of them", arguments.place("epochs"),
          arguments.place("steps"));
  constexpr int most = 100'000'000;
  if (arguments.has("steps")) return arguments.whole("steps", 1, 1, most);
  return sizes.batches_of_epochs(
      arguments.whole("epochs", 1, 1, most / std::max(sizes.batches_of_epochs(1), 1)));
}

/// --batch-size, --uneven and --batch-ramp over the data, for the schedule's micro-batches.
models::BatchSizes asked_sizes(const Arguments& arguments, const TrainingPlan& plan,
                               const Shape& shape) {
  const int parts = shape.micro_batches;
  const int samples = plan.data.train.samples();
  models::Batching asked{.batch_size = plan.batch_size,
                         .micro_batches = parts,
                         .uneven = arguments.yes("uneven", false)};
  require(plan.batch_size <= samples, "{} {}: the training data of {} hold {} samples",
          arguments.place("batch-size"), plan.batch_size, plan.data_name, samples);
  require(asked.uneven || plan.batch_size % parts == 0,
          "{} {} is not divisible by {} micro-batches{}; choose a multiple of {}, or --uneven yes",
          arguments.place("batch-size"), plan.batch_size, parts,
          shape.replicas > 1 ? fmt::format(" on {} replicas together", shape.replicas) : "", parts);
  const auto ramp = arguments.text("batch-ramp");
  if (!ramp) return {samples, asked};
  try {
    asked.ramp = models::BatchRamp::parse(*ramp);
    return {samples, asked};
  } catch (const Error& error) {
    fail("{}: {}", arguments.place("batch-ramp"), error.what());
  }
}

/// Where micro-batches are of several sizes, what is made for one size alone is refused.
void require_one_size(const Arguments& arguments, const TrainingPlan& plan) {
  const std::vector<int> sizes = plan.piece_sizes();
  if (sizes.size() == 1) return;
  const std::string of_sizes =
      fmt::format("with micro-batches of {} and {} samples", sizes.front(), sizes.back());
  require(!plan.device, "--device {} {}: these are for the CPU in this version",
          *arguments.text("device"), of_sizes);
  require(!arguments.has("profile") && !arguments.has("cluster"),
          "{} {}: costs are those of one size; leave it out, or give every batch one size",
          arguments.place(arguments.has("profile") ? "profile" : "cluster"), of_sizes);
}

std::optional<std::vector<int>> asked_test_points(const Arguments& arguments,
                                                  const TrainingPlan& plan) {
  if (!arguments.has("evaluate-every")) return std::nullopt;
  require(!plan.device, "{} is for training on the CPU in this version; leave it out, or --device",
          arguments.place("evaluate-every"));
  const bool by_epoch = *arguments.text("evaluate-every") == "epoch";
  const int every = by_epoch ? 1 : arguments.whole("evaluate-every", 1);
  std::vector<int> points;
  for (int n = every;; n += every) {
    const int batches = by_epoch ? plan.batches.batches_of_epochs(n) : n;
    if (batches >= plan.shape.batches) return points;
    points.push_back(batches);
  }
}

}  // namespace

double TrainingPlan::rate_of(int batch) const {
  const double whole = rate.at_batch(batch, shape.batches, batches);
  if (rate_power == 0) return whole;
  return whole * std::pow(static_cast<double>(batches.batch(batch).size) / batch_size, rate_power);
}

std::int64_t TrainingPlan::samples_from(int first) const {
  std::int64_t samples = 0;
  for (int batch = first; batch < shape.batches; ++batch) samples += batches.batch(batch).size;
  return samples;
}

TrainingPlan read_plan(const Arguments& arguments, const ScheduleSpec& spec) {
  if (const auto name = arguments.text("model")) {
    reading(arguments, "model", [&] { models::require_trainable(*name); });
  }
  const auto data = arguments.text("data");
  require(data.has_value(), "--data SPEC is needed, for example digits or fashion-mnist");
  models::DataSplit split = reading(arguments, "data", [&] { return models::load_data(*data); });
  models::Model model = asked_model_for(arguments, split);
  TrainingPlan plan{.spec = spec,
                    .shape = {},
                    .model = std::move(model),
                    .data = std::move(split),
                    .data_name = *data,
                    .batch_size = arguments.whole("batch-size", 64),
                    .optimizer = asked_optimizer(arguments),
                    .rate = {},
                    .seed = arguments.seed(),
                    .threads = asked_threads(arguments),
                    .metrics_file = arguments.text("metrics")};
  Shape shape;
  const Shape usual = usual_shape(spec, usual_stages);
  read_stages(arguments, spec.pipeline().chunks.usual, usual.stages, shape);
  shape.micro_batches = arguments.whole("microbatches", usual.micro_batches);
  shape.drain = arguments.yes("drain", usual.drain);
  shape.replicas = arguments.whole("replicas", usual.replicas, 1, 1 << 10);
  plan.batches = asked_sizes(arguments, plan, spec.effective(shape));
  shape.batches = asked_batches(arguments, plan.batches);
  plan.shape = spec.effective(shape);
  require_buildable(plan.shape, spec);
  require_trains_there(arguments, plan.model);
  plan.device = asked_device(arguments, plan.shape.ranks());
  require_one_size(arguments, plan);
  plan.augmentation = asked_augmentation(arguments);
  require(!plan.augmentation.any() || !plan.model.input.is_sequence,
          "{}: only images are augmented, {} is text", arguments.place("augment"), plan.data_name);
  plan.statistics = asked_statistics(arguments);
  plan.test_points = asked_test_points(arguments, plan);
  plan.rate_power = asked_rate_power(arguments);
  plan.rate = asked_rate(arguments, plan.batch_size);
  if (const auto clip = arguments.text("clip-norm")) {
    plan.clip = reading(arguments, "clip-norm", [&] { return models::GradientClip::parse(*clip); });
    require(plan.clip->of_stage || spec.method().synchronous,
            "--clip-norm {}: {} updates a stage before the gradients of the others are there, so "
            "there is no norm over the whole model; --clip-norm {},scope=stage clips every stage's "
            "gradient by its own norm",
            *clip, spec.text(), *clip);
  }
  return plan;
}

}  // namespace unlatch::tools
