// The test curve of a finished run, for people and programs.
#pragma once

#include "tools/finished_run.h"
#include "tools/json_output.h"
#include "tools/table.h"

namespace unlatch::tools {

/// One point of a test curve, and when it was reached.
struct TimedPoint {
  int step = 0;
  exec::Evaluation test;
  std::optional<double> measured_ms;  ///< empty before a run went on from a checkpoint
  std::optional<double> simulated_ms;
  /// Simulated where there is such a clock.
  double ms() const { return simulated_ms ? *simulated_ms : measured_ms.value(); }
};

/// The end of the training comes last.
std::vector<TimedPoint> timed_points(const FinishedRun& run);

Json test_curve_json(const FinishedRun& run);
Table test_curve_table(const FinishedRun& run);

}  // namespace unlatch::tools
