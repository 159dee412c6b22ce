#include "tools/training.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "schedules/error.h"
#include "sim/units.h"
#include "tools/placed_errors.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

struct Slot {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t elements = 0;
  bool statistic = false;
};

/// All tensors of a model in the order of its flat weights, each layer's statistics behind them.
std::vector<Slot> slots_of(const models::Model& model) {
  std::vector<Slot> slots;
  const auto shapes = model.shapes();
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    for (const models::Parameter& parameter : models::parameters(model.layers[j], shapes[j])) {
      slots.push_back({.name = parameter.name,
                       .shape = {parameter.shape.begin(), parameter.shape.end()},
                       .elements = static_cast<std::size_t>(parameter.elements())});
    }
    const std::int64_t statistics = models::statistic_count(model.layers[j], shapes[j]);
    if (statistics == 0) continue;
    slots.push_back({.name = fmt::format("{}.running_statistics", model.layers[j].name),
                     .shape = {statistics},
                     .elements = static_cast<std::size_t>(statistics),
                     .statistic = true});
  }
  return slots;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

models::OptimizerSpec asked_optimizer(const Arguments& arguments) {
  models::OptimizerSpec spec = reading(arguments, "optimizer", [&] {
    return models::OptimizerSpec::parse(arguments.text("optimizer", "sgd"));
  });
  if (arguments.has("weight-decay")) spec.weight_decay = arguments.real("weight-decay", 0, 0);
  return spec;
}

double asked_rate_power(const Arguments& arguments) {
  if (!arguments.has("lr-scaling")) return 0;
  return arguments.choice("lr-scaling", {"linear", "sqrt"}) == "linear" ? 1 : 0.5;
}

models::RateSchedule asked_rate(const Arguments& arguments, int batch_size) {
  constexpr double any = std::numeric_limits<double>::infinity();
  const auto given = arguments.text("lr");
  double rate = given ? sim::parse_positive(arguments.place("lr"), *given, any) : 0.1;
  require(arguments.has("lr-scaling") == arguments.has("lr-base-batch"),
          "{} needs {}: they belong together, the rate is that of N samples a batch",
          arguments.has("lr-scaling") ? arguments.place("lr-scaling")
                                      : arguments.place("lr-base-batch"),
          arguments.has("lr-scaling") ? "--lr-base-batch N" : "--lr-scaling linear|sqrt");
  if (arguments.has("lr-scaling")) {
    const double times = static_cast<double>(batch_size) / arguments.whole("lr-base-batch", 1);
    rate *= std::pow(times, asked_rate_power(arguments));
  }
  return reading(arguments, "lr-schedule", [&] {
    return models::RateSchedule::parse(arguments.text("lr-schedule", "constant"), rate);
  });
}

void require_optimizer_fits(const models::OptimizerSpec& optimizer, const Learning& learning) {
  const Compression& compression = learning.agreement.compression;
  require(compression.ratio >= 1 || !optimizer.has_momentum(),
          "--optimizer {} with compression=topk would apply momentum twice: what a replica gathers "
          "has it already (momentum={}); use --optimizer sgd",
          optimizer.name, compression.momentum);
  require(!learning.predicts_weights || optimizer.coasts(),
          "--optimizer {} with weights=predicted: no momentum alone says where its weights go; use "
          "sgd, momentum, nesterov, sum or lars, or another 'weights'",
          optimizer.name);
}

models::Augmentation asked_augmentation(const Arguments& arguments) {
  const auto text = arguments.text("augment");
  return text ? models::Augmentation::parse(*text, arguments.place("augment"))
              : models::Augmentation{};
}

exec::StatisticUpdates asked_statistics(const Arguments& arguments) {
  using enum exec::StatisticUpdates;
  const std::string which = arguments.text("batch-norm-updates", "forward");
  if (which == "forward") return forward;
  if (which == "recompute") return recompute;
  if (which != "both") {
    arguments.refuse("batch-norm-updates", which, "must be forward, recompute or both");
  }
  return both;
}

int asked_threads(const Arguments& arguments) {
  constexpr int most = 1024;
  return arguments.whole("threads", 0, 1, most);
}

void warn_of_too_many_threads(int threads, const TaskGraph& graph) {
  const auto lanes = std::ranges::count_if(graph.lanes(), [](const Lane& lane) {
    return lane.engine == Engine::compute || lane.engine == Engine::recompute;
  });
  const int workers = std::min(threads, static_cast<int>(lanes));
  constexpr int maths_threads = 1;  // of each worker, whatever the environment says
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (cores == 0 || workers * maths_threads <= cores + graph.ranks()) return;
  say(fmt::format(
      "warning: {} workers x {} maths thread on {} cores for {} ranks; they will wait for each "
      "other, lower --threads",
      workers, maths_threads, cores, graph.ranks()));
}

models::TensorFile tensor_file(const models::Model& model, const TrainedModel& trained) {
  models::TensorFile file;
  file.metadata = {{"format", "unlatch"}, {"model", model.name}};
  std::size_t weight = 0, statistic = 0;
  for (const Slot& slot : slots_of(model)) {
    std::size_t& at = slot.statistic ? statistic : weight;
    const float* values =
        (slot.statistic ? trained.statistics.data() : trained.weights.data()) + at;
    file.tensors.push_back({slot.name, slot.shape, {values, values + slot.elements}});
    at += slot.elements;
  }
  return file;
}

TrainedModel read_trained(const models::Model& model, const std::string& path) {
  const models::TensorFile file = models::read_safetensors(path);
  TrainedModel trained;
  const auto slots = slots_of(model);
  for (const Slot& slot : slots) {
    const auto found = std::ranges::find(file.tensors, slot.name, &models::NamedTensor::name);
    require(found != file.tensors.end(),
            "'{}' has no tensor '{}', which model {} needs; was it saved from another model?", path,
            slot.name, model.name);
    require(found->shape == slot.shape,
            "'{}': tensor '{}' has the shape {}, model {} needs {}; was it saved from another "
            "model or data set?",
            path, slot.name, shape_text(found->shape), model.name, shape_text(slot.shape));
    auto& values = slot.statistic ? trained.statistics : trained.weights;
    values.insert(values.end(), found->values.begin(), found->values.end());
  }
  require(file.tensors.size() == slots.size(),
          "'{}' holds {} tensors, model {} has {}; was it saved from another model?", path,
          file.tensors.size(), model.name, slots.size());
  return trained;
}

}  // namespace unlatch::tools
