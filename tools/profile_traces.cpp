// unlatch profile --from-trace: the costs of stages from PyTorch profiles.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tools/import_traces.h"
#include "tools/profile_output.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

std::string to_text(const StageProfileFile& file) {
  Table table({"stage", "F ms", "B ms", "I ms", "W ms", "<samples"});
  const auto cell = [](const std::optional<StageMeasurement>& measured) {
    if (!measured) return std::string("-");
    const auto half = (measured->time.upper_ns - measured->time.lower_ns) / 2;
    return fmt::format("{} +- {}",
                       format_number(static_cast<double>(measured->time.median_ns) / 1e6),
                       format_number(static_cast<double>(half) / 1e6));
  };
  for (std::size_t k = 0; k < file.stages.size(); ++k) {
    const StageProfile& stage = file.stages[k];
    std::vector<int> samples;
    for (const auto& measured :
         {stage.forward, stage.backward, stage.input_gradient, stage.weight_gradient}) {
      if (measured) samples.push_back(measured->samples);
    }
    table.add({fmt::format("{}", k), cell(stage.forward), cell(stage.backward),
               cell(stage.input_gradient), cell(stage.weight_gradient),
               fmt::format("{}", fmt::join(samples, ", "))});
  }
  return fmt::format(
      "medians and half the distance of the quartiles, of {} profile{}, the first {} "
      "step{} of each left out\n{}",
      file.sources.size(), file.sources.size() == 1 ? "" : "s", file.warm_up,
      file.warm_up == 1 ? "" : "s", table.text());
}

}  // namespace

int profile_traces(const Arguments& arguments) {
  require_no_others(arguments, "from-trace", {"warm-up", "save", "json"});
  ProfileOutput output(arguments);
  constexpr int most = 100'000;
  const ImportedStages imported =
      import_traces(arguments.all("from-trace"), arguments.whole("warm-up", 1, 0, most));
  for (const std::string& note : imported.notes) say(fmt::format("note: {}", note));
  output.give(to_json(imported.profile), to_text(imported.profile));
  return 0;
}

}  // namespace unlatch::tools
