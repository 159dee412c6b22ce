// Straggler cases: what `unlatch stragglers` disturbs each schedule with.
#pragma once

#include <string>
#include <vector>

#include "tools/disturbed_runs.h"

namespace unlatch::tools {

struct StragglerCase {
  std::string name;
  sim::Disturbance disturbance;
};

/// Pauses of the usual cases: a fifth of the mean work of a rank in a batch, after the work of ten
/// batches.
struct UsualPauses {
  nanoseconds every{0};
  nanoseconds time{0};
};
UsualPauses usual_pauses(const DisturbedRuns& runs);

/// The first, the middle and the last rank slower by 1.5; every rank by 1.5 in a third of its
/// local steps; pauses, but where ranks share workers.
std::vector<StragglerCase> usual_cases(const DisturbedRuns& runs, UsualPauses pauses);

/// True when flags say what disturbs.
bool asks_cases(const Arguments& arguments);
/// Each of them alone, then all together where there are more.
std::vector<StragglerCase> asked_cases(const Arguments& arguments, const DisturbedRuns& runs);

}  // namespace unlatch::tools
