// unlatch show: a schedule drawn as text, at unit cost unless costs are given.
#include <numeric>

#include "schedules/error.h"
#include "sim/simulator.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/schedule_input.h"
#include "tools/simulation.h"
#include "tools/terminal.h"
#include "tools/workload.h"
#include "traces/draw.h"

namespace unlatch::tools {
namespace {

/// The longest unit that every time is a multiple of: one column of the drawing.
nanoseconds common_unit(const Timeline& timeline) {
  std::int64_t unit = 0;
  for (const Span& span : timeline.spans) {
    unit = std::gcd(std::gcd(unit, span.start.count()), span.end.count());
  }
  return nanoseconds{unit == 0 ? 1 : unit};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    result.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

ScheduleSpec asked_schedule(const Arguments& arguments) {
  if (arguments.positionals().empty()) return asked_schedules(arguments, 1).front();
  require(!arguments.has("schedule"), "the schedule is given twice: '{}' and {}",
          arguments.positionals().front(), arguments.place("schedule"));
  return read_schedule(arguments.positionals().front());
}

int run(const Arguments& arguments) {
  const ScheduleSpec spec = asked_schedule(arguments);
  const Workload workload = read_workload(arguments, spec, spec.method().synchronous);
  const Shape shape = spec.effective(workload.shape);
  const Schedule schedule = spec.make(workload.shape);
  const TaskGraph tasks = schedule.build();
  const sim::StageCosts costs(workload.costs_for(spec, tasks, 1).times);
  const TaskGraph graph = graph_of_run(schedule, tasks, costs, workload, workload.disturbance, 0);
  const Timeline timeline = sim::run(graph, costs);
  const nanoseconds unit = common_unit(timeline);
  const std::string drawing = draw(graph, timeline, unit);
  if (!arguments.has("json")) {
    print(drawing);
    return 0;
  }
  Json json{{"schedule", spec.method().name}, {"parameters", parameters_json(spec.options(shape))}};
  add_shape(json, shape);
  json["unit_ms"] = to_ms(unit);
  json["rows"] = lines(drawing);
  print_json(json);
  return 0;
}

}  // namespace

Command show_command() {
  return {.name = "show",
          .summary = "Draw a schedule as text, one row a lane and one column a unit of time",
          .positionals = {"SPEC"},
          .groups = {{"Schedule",
                      {{"schedule", "SPEC", "Instead of the argument, for scenario files"}}},
                     shape_flags(),
                     cost_flags()},
          .run = run};
}

}  // namespace unlatch::tools
