#include "tools/model_options.h"

#include <numeric>

#include "schedules/error.h"
#include "sim/units.h"
#include "tools/machine.h"

namespace unlatch::tools {
namespace {

std::string asked_name(const Arguments& arguments) {
  const auto name = arguments.text("model");
  require(name.has_value(), "--model NAME is needed: one of {}",
          fmt::join(models::model_names(), ", "));
  return *name;
}

/// Weights and their gradients alone; tapes and further weight versions come on top.
void require_memory(const models::Model& model) {
  const double bytes = 2.0 * sizeof(float) * static_cast<double>(models::parameter_count(model));
  const std::int64_t machine = memory_bytes();
  require(bytes <= static_cast<double>(machine),
          "model {}: its {} parameters and their gradients need {:.0f} GiB of memory, this machine "
          "has {}; choose a smaller model",
          model.name, models::parameter_count(model), bytes / (1 << 30), sim::format_size(machine));
}

}  // namespace

models::Model asked_model(const Arguments& arguments) {
  const std::string name = asked_name(arguments);
  const auto data = arguments.text("data");
  if (!data) return models::make_model(name, models::usual_input(name), 10);
  return asked_model_for(arguments, models::load_data(*data).train);
}

models::Model asked_model_for(const Arguments& arguments, const models::Dataset& data) {
  const models::Model model = models::make_model(asked_name(arguments), data.shape, data.classes);
  models::require_fits(data, model.input);
  require_memory(model);
  return model;
}

void require_partition_name(const std::string& how, std::string_view place) {
  if (how == "uniform" || how == "auto") return;
  require(how.find_first_not_of("0123456789/") == std::string::npos && !how.empty(),
          "{} '{}': must be auto, uniform or layer counts like 3/2/1", place, how);
}

std::vector<models::StageRange> split_by(const std::string& how,
                                         std::span<const double> layer_costs, int stages,
                                         std::string_view place) {
  const int layers = static_cast<int>(layer_costs.size());
  if (how == "uniform") return models::uniform_partition(layers, stages);
  if (how == "auto") return models::balanced_partition(layer_costs, stages);
  require_partition_name(how, place);
  return models::explicit_partition(how, layers, stages);
}

std::vector<models::StageRange> asked_partition(const Arguments& arguments,
                                                std::span<const double> layer_costs, int stages) {
  return split_by(arguments.text("partition", "auto"), layer_costs, stages,
                  arguments.place("partition"));
}

std::vector<models::StageRange> asked_partition(const Arguments& arguments,
                                                std::span<const double> layer_costs,
                                                std::span<const double> recompute_costs,
                                                const std::vector<bool>& pays_recompute) {
  const int stages = static_cast<int>(pays_recompute.size());
  if (arguments.text("partition", "auto") != "auto") {
    return asked_partition(arguments, layer_costs, stages);
  }
  const auto sums_before = [](std::span<const double> costs) {
    std::vector<double> before(costs.size() + 1, 0.0);
    std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);
    return before;
  };
  const auto costs_before = sums_before(layer_costs),
             recompute_before = sums_before(recompute_costs);
  return models::best_partition(
      static_cast<int>(layer_costs.size()), stages, [&](int first, int last, int stage) {
        const auto from = static_cast<std::size_t>(first), to = static_cast<std::size_t>(last) + 1;
        const bool pays = pays_recompute[static_cast<std::size_t>(stage)];
        return costs_before[to] - costs_before[from] +
               (pays ? recompute_before[to] - recompute_before[from] : 0);
      });
}

std::vector<double> forward_flops_of_layers(const models::Model& model) {
  std::vector<double> costs;
  const auto shapes = model.shapes();
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    costs.push_back(static_cast<double>(models::forward_flops(model.layers[j], shapes[j])));
  }
  return costs;
}

std::vector<double> flops_of_layers(const models::Model& model) {
  std::vector<double> costs;
  const auto shapes = model.shapes();
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    costs.push_back(static_cast<double>(models::forward_flops(model.layers[j], shapes[j]) +
                                        models::backward_flops(model.layers[j], shapes[j])));
  }
  return costs;
}

}  // namespace unlatch::tools
