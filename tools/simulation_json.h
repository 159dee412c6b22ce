// The JSON document of one simulated or measured run (contract, "JSON of simulate").
#pragma once

#include "tools/json_output.h"
#include "tools/simulation.h"

namespace unlatch::tools {

/// Figures of a run: from "makespan_ms" to "stages_detail".
void add_figures(Json& json, const Shape& shape, const Metrics& metrics,
                 const std::vector<RankMemory>& memory);
/// To the ranks of add_run(): since when each keeps its most, and the task that brought it.
void add_peaks(Json& json, const TaskGraph& graph, const std::vector<RankMemory>& memory);
/// Facts of a run that only its timeline decides: from "makespan_ms" to "transfers". `most_path`
/// limits the critical path (0: all of it). Shared by predicted and measured runs.
void add_run(Json& json, const TaskGraph& graph, const Timeline& timeline, const Metrics& metrics,
             const std::vector<RankMemory>& memory, int most_path);
/// Layers of each stage.
Json partition_json(const std::vector<models::StageRange>& partition);
/// "steady_state".
Json steady_json(const sim::SteadyState& steady, const sim::BatchWork& work);

/// "distribution".
Json distribution_json(const sim::Distribution& runs);

/// The whole document. `most_path` as above.
Json simulation_json(const Simulation& simulation, int most_path);

/// --critical-path all|N: how many entries the path has (1000).
int asked_path_length(const Arguments& arguments);

}  // namespace unlatch::tools
