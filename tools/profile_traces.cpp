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

/// How many samples are not counted, and why.
std::string left_out_text(const ImportedStages& imported) {
  if (imported.left_out == 0) return "no samples left out";
  const int steps = imported.profile.warm_up;
  return fmt::format(
      "{} sample{} left out: those of the first {}, which start{} up and are slower (--warm-up 0 "
      "keeps all)",
      imported.left_out, imported.left_out == 1 ? "" : "s",
      steps == 1 ? "step" : fmt::format("{} steps", steps), steps == 1 ? "s" : "");
}

std::string to_text(const ImportedStages& imported) {
  const StageProfileFile& file = imported.profile;
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
  return fmt::format("medians and half the distance of the quartiles, of {} profile{}; {}\n{}",
                     file.sources.size(), file.sources.size() == 1 ? "" : "s",
                     left_out_text(imported), table.text());
}

}  // namespace

int profile_traces(const Arguments& arguments) {
  require_no_others(arguments, "from-trace", {"warm-up", "save", "json"});
  ProfileOutput output(arguments);
  constexpr int most = 100'000;
  const ImportedStages imported =
      import_traces(arguments.all("from-trace"), arguments.whole("warm-up", 1, 0, most));
  for (const std::string& note : imported.notes) say(fmt::format("note: {}", note));
  output.give(to_json(imported.profile), to_text(imported));
  return 0;
}

}  // namespace unlatch::tools
