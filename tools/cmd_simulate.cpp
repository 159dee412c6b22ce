// unlatch simulate: one schedule under a cost model, with all metrics.
#include "schedules/error.h"
#include "tools/bp_costs.h"
#include "tools/command.h"
#include "tools/outputs.h"
#include "tools/run_files.h"
#include "tools/sensitivity_report.h"
#include "tools/simulation.h"
#include "tools/simulation_json.h"
#include "tools/simulation_text.h"
#include "tools/streaming.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

int run(const Arguments& arguments) {
  const ScheduleSpec spec = asked_schedules(arguments, 1).front();
  if (arguments.has("stream")) return simulate_streamed(arguments, spec);
  const int most_path = asked_path_length(arguments);
  require_outputs(arguments, {"trace", "tasks"});
  const Workload workload = read_workload(arguments, spec, spec.method().synchronous);
  require_random_runs(workload);
  asked_trace(arguments, spec.effective(workload.shape).ranks());  // before the work, not after
  const Simulation simulation = simulate(spec, workload);
  note_assumptions(workload, spec);
  note_unknown_bp(workload);
  if (simulation.excess) {
    fail(
        "{} does not fit the memory limit: {}; raise --memory-limit or choose another schedule, "
        "more stages or smaller micro-batches",
        simulation.spec.text(), simulation.excess->text());
  }
  std::optional<std::vector<sim::Sensitivity>> sensitivity;
  if (arguments.has("sensitivity")) sensitivity = sensitivities_of(spec, workload, simulation);
  write_files(arguments, simulation);
  if (arguments.has("json")) {
    Json json = simulation_json(simulation, most_path);
    if (sensitivity) json["sensitivity"] = sensitivity_json(simulation, *sensitivity);
    print_json(json);
  } else {
    print(simulation_text(simulation, most_path));
    if (sensitivity) print(fmt::format("\n{}", sensitivity_text(simulation, *sensitivity)));
  }
  return 0;
}

std::vector<Flag> own_flags() {
  std::vector<Flag> flags = file_flags();
  flags.push_back({"critical-path", "all|N", "Most tasks of the critical path in JSON (1000)"});
  flags.push_back({"sensitivity", "", "What 10 % faster stages and links would each gain",
                   Flag::Kind::presence});
  flags.push_back({"stream", "", "Hold no task: for runs of many millions", Flag::Kind::presence});
  return flags;
}

}  // namespace

Command simulate_command() {
  return {
      .name = "simulate",
      .summary = "Simulate one schedule: time, utilization, idle time by cause, memory",
      .groups = {{"Schedule",
                  {{"schedule", "SPEC", "NAME[:key=value[,key=value...]]", Flag::Kind::repeated}}},
                 shape_flags(),
                 cost_flags(),
                 simulated_memory_flags(),
                 straggler_flags(),
                 layer_flags(),
                 {"Output", own_flags()}},
      .run = run};
}

}  // namespace unlatch::tools
