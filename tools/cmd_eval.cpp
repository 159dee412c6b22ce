// unlatch eval: how well saved weights do on the test part of a data set.
#include <algorithm>
#include <cmath>
#include <thread>

#include "exec/evaluate.h"
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/model_options.h"
#include "tools/placed_errors.h"
#include "tools/terminal.h"
#include "tools/training.h"

namespace unlatch::tools {
namespace {

std::string loss_text(double loss) {
  if (std::isfinite(loss)) return fmt::format("loss {:.4f}", loss);
  return std::isnan(loss) ? "the loss is not a number" : "the loss is infinite";
}

int run(const Arguments& arguments) {
  const auto path = arguments.text("weights");
  const auto data_name = arguments.text("data");
  require(path.has_value(), "--weights FILE is needed: what 'unlatch train --save FILE' wrote");
  require(data_name.has_value(), "--data SPEC is needed, for example digits or fashion-mnist");
  models::DataSplit data =
      reading(arguments, "data", [&] { return models::load_data(*data_name); });
  const models::Model model = asked_model_for(arguments, data);
  const TrainedModel trained =
      reading(arguments, "weights", [&] { return read_trained(model, *path); });
  const int asked = asked_threads(arguments);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const exec::Evaluation result = exec::evaluate(model, trained.weights, trained.statistics,
                                                 data.test, {.threads = asked > 0 ? asked : cores});
  if (arguments.has("json")) {
    print_json({{"model", model.name},
                {"data", *data_name},
                {"accuracy", result.accuracy},
                {"loss", number_json(result.loss)},
                {"correct", result.correct},
                {"samples", result.samples}});
  } else {
    print(fmt::format("{} on the test part of {}: accuracy {:.2f}% ({} of {}), {}\n", model.name,
                      *data_name, result.accuracy * 100, result.correct, result.samples,
                      loss_text(result.loss)));
  }
  if (std::isfinite(result.loss)) return 0;
  finish_output();
  throw RunError(fmt::format("the weights of '{}' give a loss that is no finite number", *path));
}

}  // namespace

Command eval_command() {
  return {.name = "eval",
          .summary = "Accuracy of saved weights on the test part of a data set",
          .groups = {{"Evaluation",
                      {{"weights", "FILE", "What 'unlatch train --save FILE' wrote"},
                       {"model", "NAME", "Model that the weights belong to"},
                       {"data", "SPEC", "Data set"},
                       {"threads", "T", "Worker threads (one a core)"}}}},
          .run = run};
}

}  // namespace unlatch::tools
