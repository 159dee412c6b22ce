#include "tools/sensitivity_report.h"

#include <algorithm>

#include "schedules/error.h"
#include "sim/straggler_costs.h"
#include "tools/disturbed_runs.h"
#include "tools/table.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

using sim::Sensitivity;

/// "1B", "0SEND_F".
std::string name(const sim::Part& part) {
  return fmt::format("{}{}", part.stage.value, letter(part.op));
}

/// The lane of a part's tasks.
const Lane& lane_of(const TaskGraph& graph, const sim::Part& part) {
  const auto found = std::ranges::find_if(graph.tasks(), [&](const Task& task) {
    return task.op == part.op && task.stage == part.stage;
  });
  return graph.lane(*found);
}

/// "rank 1", "link 0 to 1"; a server and an all-reduce have no number.
std::string where(const TaskGraph& graph, const sim::Part& part) {
  const Lane& lane = lane_of(graph, part);
  const auto ends = sim::ends_of_link(graph, lane);
  if (!ends) return fmt::format("rank {}", lane.rank.value);
  if (!is_send(part.op)) return fmt::format("link of rank {}", lane.rank.value);
  return fmt::format("link {} to {}", ends->from,
                     sim::receiver_of(graph, part.op, part.stage).value);
}

double share_of(nanoseconds t, nanoseconds of) {
  return of.count() == 0 ? 0 : static_cast<double>(t.count()) / static_cast<double>(of.count());
}

Json part_json(const Simulation& simulation, const Sensitivity& one) {
  const nanoseconds makespan = simulation.metrics.makespan;
  const Lane& lane = lane_of(simulation.graph, one.part);
  Json json{{"part", name(one.part)},
            {"kind", letter(one.part.op)},
            {"stage", one.part.stage.value},
            {"rank", lane.rank.value}};
  if (is_send(one.part.op)) {
    json["to_rank"] = sim::receiver_of(simulation.graph, one.part.op, one.part.stage).value;
  }
  json["critical_tasks"] = one.tasks;
  json["on_critical_path_ms"] = to_ms(one.on_path);
  json["share_of_makespan"] = share_of(one.on_path, makespan);
  json["predicted_gain_ms"] = to_ms(one.predicted);
  json["gain_ms"] = to_ms(one.gain);
  json["gain_ratio"] = share_of(one.gain, makespan);
  json["path_moves_to"] = one.moved ? Json(name(*one.moved)) : Json(nullptr);
  return json;
}

}  // namespace

std::vector<Sensitivity> sensitivities_of(const ScheduleSpec& spec, const Workload& workload,
                                          const Simulation& simulation) {
  const DisturbedRuns runs(spec, workload);
  return sim::sensitivities(simulation.graph,
                            runs.costs_of_run(simulation.graph, runs.disturbance(), 0),
                            simulation.timeline, faster_by);
}

Json sensitivity_json(const Simulation& simulation, const std::vector<Sensitivity>& all) {
  Json parts = Json::array();
  for (const Sensitivity& one : all) parts.push_back(part_json(simulation, one));
  return {{"faster", faster_by}, {"parts", std::move(parts)}};
}

std::string sensitivity_text(const Simulation& simulation, const std::vector<Sensitivity>& all) {
  const nanoseconds makespan = simulation.metrics.makespan;
  Table table({"<part", "<where", "on the path ms", "share", "predicted ms", "simulated ms", "gain",
               "<why not as predicted"});
  std::size_t off_path = 0;
  for (const Sensitivity& one : all) {
    if (one.tasks == 0) {
      ++off_path;
      continue;
    }
    table.add({name(one.part), where(simulation.graph, one.part), format_ms(one.on_path),
               format_percent(share_of(one.on_path, makespan)), format_ms(one.predicted),
               format_ms(one.gain), format_percent(share_of(one.gain, makespan)),
               one.moved ? fmt::format("the path moves to {}", name(*one.moved)) : ""});
  }
  std::string text = fmt::format(
      "What the makespan would gain if a part were {:.0f} % faster: predicted by its time on the "
      "critical path, and simulated again\n{}",
      100 * faster_by, table.text());
  if (off_path > 0) {
    text += fmt::format("{} more part{} not on the critical path: nothing to gain\n", off_path,
                        off_path == 1 ? " is" : "s are");
  }
  return text;
}

}  // namespace unlatch::tools
