// Run files: what --trace and --tasks ask simulate to write.
#pragma once

#include <vector>

#include "tools/command.h"
#include "tools/simulation.h"
#include "traces/chrome_trace.h"

namespace unlatch::tools {

/// --trace, --tasks, and which part of the run the trace holds.
std::vector<Flag> file_flags();

/// Which part it holds, for a run on that many ranks. Throws Error for what no run has.
ChromeTraceOptions asked_trace(const Arguments& arguments, int ranks);

/// Writes both; says beforehand how large a trace becomes, and when no viewer will open it.
void write_files(const Arguments& arguments, const Simulation& simulation);

}  // namespace unlatch::tools
