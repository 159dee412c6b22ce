// unlatch partition: layers to stages, from a model's operations or from given costs.
#include "models/model_file.h"
#include "models/partition.h"
#include "models/transformer.h"
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/model_options.h"
#include "tools/outputs.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

/// Costs and names of the layers that are to be split.
struct Layers {
  std::vector<double> costs;
  std::vector<std::string> names;
};

Layers given_costs(const Arguments& arguments) {
  Layers layers{.costs = arguments.reals("layer-costs"), .names = {}};
  for (double cost : layers.costs) {
    if (cost < 0) arguments.refuse("layer-costs", fmt::format("{}", cost), "a cost must be >= 0");
  }
  return layers;
}

Layers model_costs(const Arguments& arguments) {
  const models::ModelFacts model = asked_facts(arguments, sizeof(float));
  Layers layers{.costs = models::training_work(model), .names = {}};
  for (const models::LayerFacts& layer : model.layers) layers.names.push_back(layer.name);
  return layers;
}

Json to_json(const std::vector<models::StageRange>& stages, int bottleneck, int layers) {
  Json result;
  result["stages"] = Json::array();
  for (std::size_t k = 0; k < stages.size(); ++k) {
    result["stages"].push_back({{"stage", k},
                                {"first", stages[k].first},
                                {"last", stages[k].last},
                                {"layers", stages[k].layers()},
                                {"cost", stages[k].cost}});
  }
  result["bottleneck_stage"] = bottleneck;
  result["total_layers"] = layers;
  return result;
}

std::string to_text(const std::vector<models::StageRange>& stages, int bottleneck,
                    const Layers& layers) {
  Table table({"stage", "first", "last", "layers", "cost", "<"});
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const models::StageRange& stage = stages[k];
    std::string note = static_cast<int>(k) == bottleneck ? "bottleneck" : "";
    if (!layers.names.empty()) {
      note = fmt::format("{} .. {}  {}", layers.names[static_cast<std::size_t>(stage.first)],
                         layers.names[static_cast<std::size_t>(stage.last)], note);
    }
    table.add({fmt::format("{}", k), fmt::format("{}", stage.first), fmt::format("{}", stage.last),
               fmt::format("{}", stage.layers()), fmt::format("{}", stage.cost), note});
  }
  return fmt::format("{}{} layers on {} stages\n", table.text(), layers.costs.size(),
                     stages.size());
}

void save_model(const Arguments& arguments, const std::string& path) {
  const std::string name = arguments.text("model", "");
  require(!name.empty() && !models::names_transformer(name),
          "{} writes the layers of a --model, which a transformer's shape and --layer-costs do not "
          "have",
          arguments.place("save-model"));
  require_outputs(arguments, {"save-model"});
  write_file(path, models::model_json(asked_model(arguments)));
}

int run(const Arguments& arguments) {
  require(!arguments.has("model") || !arguments.has("layer-costs"),
          "{} and {}: partition wants only one of them", arguments.place("layer-costs"),
          arguments.place("model"));
  require(arguments.has("model") || arguments.has("layer-costs"),
          "partition wants either --model NAME or --layer-costs LIST, neither is given");
  require(arguments.has("model") || !arguments.has("data"),
          "{} gives a model its shape; --layer-costs has none", arguments.place("data"));
  const Layers layers = arguments.has("model") ? model_costs(arguments) : given_costs(arguments);
  const int count = static_cast<int>(layers.costs.size());
  const int most = 1 << 16;
  const int stages_asked = arguments.whole("stages", 4, 1, most);
  auto stages = asked_partition(arguments, layers.costs, stages_asked);
  const int bottleneck = models::bottleneck(stages, layers.costs);
  if (const auto path = arguments.text("save-model")) save_model(arguments, *path);
  if (arguments.has("json")) {
    print_json(to_json(stages, bottleneck, count));
  } else {
    print(to_text(stages, bottleneck, layers));
  }
  return 0;
}

}  // namespace

Command partition_command() {
  return {
      .name = "partition",
      .summary = "Split the layers of a model into stages",
      .groups = {{"Partition",
                  {{"layer-costs", "C[,C...]", "Costs of the layers, in any one unit"},
                   {"model", "NAME", "A model; costs are its FLOPs, a byte moved counting 8"},
                   {"data", "SPEC", "Data that give the model its input shape and classes"},
                   {"stages", "K", "Stages (4)"},
                   {"partition", "HOW", "auto (smallest largest cost), uniform, or n1/n2/.."},
                   {"save-model", "FILE", "Write the layers of the model as JSON for --model"}}}},
      .run = run};
}

}  // namespace unlatch::tools
