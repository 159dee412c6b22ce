// Stage profile: measured costs of whole stages, imported from a run elsewhere, written and read
// back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/layer_profile.h"
#include "sim/stage_costs.h"
#include "tools/json_output.h"

namespace unlatch::tools {

/// One kind of task on one stage.
struct StageMeasurement {
  exec::Measurement time;
  int samples = 0;
};

/// Of one micro-batch, as large as it was in the run. At least B, or I and W.
struct StageProfile {
  std::optional<StageMeasurement> forward, backward, input_gradient, weight_gradient;

  bool is_split() const { return input_gradient && weight_gradient; }
};

struct StageProfileFile {
  std::vector<std::string> sources;  ///< files that it was imported from
  int warm_up = 0;                   ///< steps left out of each
  std::vector<StageProfile> stages;

  /// Whether I and W of any stage are not measured.
  bool halves_backward() const;
};

Json to_json(const StageProfileFile& file);
/// Nothing when the file is one of layers. Throws Error that names the file and the place of a
/// fault, and for a trace that is to be imported first.
std::optional<StageProfileFile> read_stage_profile(const std::string& path);

/// Sets F, B, I and W to the medians: B is I and W where those alone were measured, and I and W
/// are halves of B where that alone was. Copies of the model follow each other in `times`.
void set_measured_work(const StageProfileFile& file, sim::StageTimes& times);

}  // namespace unlatch::tools
