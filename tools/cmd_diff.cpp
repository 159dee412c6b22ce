// unlatch diff: predicted against measured, from trace or tasks files.
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "traces/diff.h"
#include "traces/trace_reader.h"

namespace unlatch::tools {
namespace {

Json times_json(Json head, const Difference& difference) {
  head["predicted_ms"] = to_ms(difference.predicted);
  head["measured_ms"] = to_ms(difference.measured);
  head["ratio"] = number_json(difference.ratio());
  return head;
}

Json to_json(const Diff& diff) {
  Json json;
  json["by_kind"] = Json::array();
  for (const KindDifference& kind : diff.by_kind) {
    json["by_kind"].push_back(times_json({{"kind", kind.kind}}, kind));
  }
  json["by_rank"] = Json::array();
  for (const RankDifference& rank : diff.by_rank) {
    json["by_rank"].push_back(times_json({{"rank", rank.rank}}, rank));
  }
  json["makespan"] = times_json(Json::object(), diff.makespan);
  json["culprit_rank"] = diff.culprit_rank ? Json(*diff.culprit_rank) : Json(nullptr);
  json["worst_deviation"] = number_json(diff.worst_deviation);
  json["worst"] = diff.worst;
  return json;
}

void add_row(Table& table, std::string what, const Difference& difference) {
  table.add({std::move(what), format_ms(difference.predicted), format_ms(difference.measured),
             format_number(difference.ratio()),
             difference.tasks == 0 ? "" : fmt::format("{}", difference.tasks)});
}

std::string to_text(const Diff& diff) {
  Table table({"<", "predicted ms", "measured ms", "ratio", "tasks"});
  for (const KindDifference& kind : diff.by_kind) {
    add_row(table, fmt::format("kind {}", kind.kind), kind);
  }
  for (const RankDifference& rank : diff.by_rank) {
    add_row(table, fmt::format("rank {}", rank.rank), rank);
  }
  add_row(table, "makespan", diff.makespan);
  std::string text = table.text();
  if (diff.culprit_rank) {
    text += fmt::format("slowest against its prediction: rank {}\n", *diff.culprit_rank);
  }
  return text;
}

void say_warnings(const TaskList& list) {
  for (const std::string& warning : list.warnings) say(fmt::format("warning: {}", warning));
}

int run(const Arguments& arguments) {
  const auto& files = arguments.positionals();
  require(files.size() == 2, "diff compares two files, PREDICTED and MEASURED, but {} given",
          files.size() == 1 ? "one is" : "none is");
  const double tolerance = arguments.real("tolerance", 0.1, 0);
  const bool median = arguments.choice("statistic", {"sum", "median"}) == "median";
  const TaskList predicted = read_tasks(files[0]);
  const TaskList measured = read_tasks(files[1]);
  say_warnings(predicted);
  say_warnings(measured);
  const Diff result = diff(predicted, measured, median ? Statistic::median : Statistic::sum);
  for (const std::string& note : result.notes) say(fmt::format("note: {}", note));
  if (arguments.has("json")) {
    print_json(to_json(result));
  } else {
    print(to_text(result));
  }
  if (result.worst_deviation <= tolerance) return 0;
  finish_output();
  throw RunError(fmt::format("{} deviates by {} from its prediction, more than --tolerance {}",
                             result.worst, format_percent(result.worst_deviation),
                             format_percent(tolerance)));
}

}  // namespace

Command diff_command() {
  return {
      .name = "diff",
      .summary = "Compare two runs of the same tasks, from trace or tasks files",
      .positionals = {"PREDICTED", "MEASURED"},
      .reads_scenario = false,
      .groups = {{"Comparison",
                  {{"tolerance", "X", "Largest deviation that passes (0.1); above it: exit 1"},
                   {"statistic", "sum|median",
                    "Compare summed times (sum) or median tasks, robust against a slow start"}}}},
      .run = run};
}

}  // namespace unlatch::tools
