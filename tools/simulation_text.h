// The text that simulate prints, and the parts of it that other commands print too.
#pragma once

#include <string>

#include "tools/simulation.h"
#include "tools/table.h"

namespace unlatch::tools {

/// Busy and idle time of each rank, idle by cause, and what it keeps.
/// On which rank the most is kept, since when and by which task; empty where sizes are unknown.
std::string peak_text(const TaskGraph& graph, const std::vector<RankMemory>& memory);
Table ranks_table(const Metrics& metrics, const std::vector<RankMemory>& memory);
Table stages_table(const Metrics& metrics);
inline Table stages_table(const TaskGraph&, const Metrics& metrics) {
  return stages_table(metrics);
}
/// "form=queue, staleness=4/2/0, queues=1/1/0".
std::string parameters_text(const Options& options);
/// The whole text of simulate.
std::string simulation_text(const Simulation& simulation, int most_path);

}  // namespace unlatch::tools
