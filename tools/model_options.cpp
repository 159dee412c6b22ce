#include "tools/model_options.h"

#include <numeric>

#include "models/layer_sizes.h"
#include "models/model_file.h"
#include "models/network_family.h"
#include "models/specification.h"
#include "models/transformer.h"
#include "schedules/error.h"
#include "sim/units.h"
#include "tools/machine.h"
#include "tools/placed_errors.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

std::string asked_name(const Arguments& arguments) {
  const auto name = arguments.text("model");
  require(name.has_value(), "--model NAME is needed: one of {}",
          fmt::join(models::model_names(), ", "));
  return *name;
}

/// Weights and their gradients alone; tapes and further weight versions come on top.
void require_memory(std::string_view name, const models::Model& model) {
  const double bytes = 2.0 * sizeof(float) * static_cast<double>(models::parameter_count(model));
  const std::int64_t machine = memory_bytes();
  require(bytes <= static_cast<double>(machine),
          "model {}: its {} parameters and their gradients need {:.0f} GiB of memory, this machine "
          "has {}; choose a smaller model",
          name, models::parameter_count(model), bytes / (1 << 30), sim::format_size(machine));
}

/// Where shapes of transformers do as well.
void require_known_name(const std::string& text) {
  const models::Specification given("model", text);
  if (models::family_of(given.name()) || models::names_model_file(text)) return;
  std::vector<std::string_view> names = models::model_names();
  for (const std::string_view name : models::transformer_names()) names.push_back(name);
  given.allow_names(names);
}

}  // namespace

models::Model asked_model(const Arguments& arguments) {
  const std::string name = asked_name(arguments);
  const auto data = arguments.text("data");
  if (!data) {
    return reading(arguments, "model", [&] {
      return models::make_model(name, models::usual_input(name), models::usual_classes(name));
    });
  }
  models::DataSplit split = reading(arguments, "data", [&] { return models::load_data(*data); });
  return asked_model_for(arguments, split);
}

models::Model asked_model_for(const Arguments& arguments, models::DataSplit& data) {
  const std::string name = asked_name(arguments);
  return reading(arguments, "model", [&] {
    models::Model model = models::make_model(name, data.train.shape, data.train.classes);
    models::cut_windows(data, model.input);
    models::require_fits(data.train, model.input);
    require_memory(name, model);
    require_piece_fits(name, model, 1);
    return model;
  });
}

void require_piece_fits(std::string_view name, const models::Model& model, int samples) {
  const models::LargestTensor largest = models::largest_tensor(model);
  const std::string what = fmt::format("model {}: layer {} has a tensor of {} numbers a sample",
                                       name, largest.layer, largest.numbers);
  const std::string advice = samples > 1 ? "fewer samples at once" : "a smaller model";
  require(largest.numbers <= models::most_numbers / samples,
          "{}, and {} samples at once have more than the {} of a tensor; choose {}", what, samples,
          models::most_numbers, advice);
  const double bytes = sizeof(float) * static_cast<double>(largest.numbers) * samples;
  const std::int64_t machine = memory_bytes();
  require(
      bytes <= static_cast<double>(machine),
      "{}, which is {:.0f} GiB for {} sample{} at once; this machine has {} of memory; choose {}",
      what, bytes / (1 << 30), samples, samples == 1 ? "" : "s", sim::format_size(machine), advice);
}

models::ModelFacts asked_facts(const Arguments& arguments, double element_bytes) {
  const std::string name = asked_name(arguments);
  const auto is_shape = [&] { return models::names_transformer(name); };  // it reads a file, too
  if (!reading(arguments, "model", is_shape)) {
    reading(arguments, "model", [&] { require_known_name(name); });
    return facts_of(asked_model(arguments), element_bytes);
  }
  require(!arguments.has("data"), "{} gives a network its input; model {} says its own shape",
          arguments.place("data"), name);
  return reading(arguments, "model", [&] {
    return facts_of(models::make_transformer(name, read_text), element_bytes);
  });
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
  return reading(arguments, "partition", [&] {
    return split_by(arguments.text("partition", "auto"), layer_costs, stages,
                    arguments.place("partition"));
  });
}

std::vector<models::StageRange> asked_partition(const Arguments& arguments,
                                                const StagePrices& prices) {
  const int stages = static_cast<int>(prices.kind_of.size());
  if (arguments.text("partition", "auto") != "auto") {
    return asked_partition(arguments, prices.costs.front(), stages);
  }
  std::vector<std::vector<double>> before;  // sums in front of each layer, by kind
  for (const std::vector<double>& costs : prices.costs) {
    before.emplace_back(costs.size() + 1, 0.0);
    std::partial_sum(costs.begin(), costs.end(), before.back().begin() + 1);
  }
  return models::best_partition(
      static_cast<int>(prices.costs.front().size()), stages,
      [&](int first, int last, int stage) {
        const auto& sums =
            before[static_cast<std::size_t>(prices.kind_of[static_cast<std::size_t>(stage)])];
        return sums[static_cast<std::size_t>(last) + 1] - sums[static_cast<std::size_t>(first)];
      },
      prices.costs.size() == 1 ? models::Price::sums : models::Price::grows);
}

StagePrices prices_of(const std::vector<double>& layer_costs,
                      const std::vector<double>& recompute_costs,
                      const std::vector<bool>& pays_recompute) {
  StagePrices prices{.costs = {layer_costs, layer_costs},
                     .kind_of = {pays_recompute.begin(), pays_recompute.end()}};
  for (std::size_t j = 0; j < layer_costs.size(); ++j) prices.costs[1][j] += recompute_costs[j];
  return prices;
}

}  // namespace unlatch::tools
