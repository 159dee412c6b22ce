// unlatch stragglers: what slow ranks, slow links, noise and pauses cost each schedule.
#include <algorithm>

#include "schedules/error.h"
#include "tools/command.h"
#include "tools/simulation_json.h"
#include "tools/straggler_cases.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

constexpr int usual_runs = 1000, most_runs = 1'000'000;

struct Outcome {
  StragglerCase with;
  sim::Distribution makespans;  ///< of one run where nothing is random

  bool random() const { return with.disturbance.random(); }
};

/// One schedule under all cases.
struct Row {
  ScheduleSpec spec;
  Shape shape;
  nanoseconds undisturbed{0};
  std::vector<Outcome> outcomes;

  std::optional<double> slow_down(nanoseconds makespan) const {
    if (undisturbed.count() == 0) return std::nullopt;
    return static_cast<double>(makespan.count()) / static_cast<double>(undisturbed.count());
  }
};

int asked_runs(const Arguments& arguments, const Workload& workload) {
  const int runs = arguments.whole("runs", usual_runs, 1, most_runs);
  require(!arguments.has("runs") || !asks_cases(arguments) || workload.disturbance.random(),
          "{} {} without --straggler: runs differ only where costs are random",
          arguments.place("runs"), runs);
  return runs;
}

Row row_of(const ScheduleSpec& spec, const Workload& workload, const DisturbedRuns& runs,
           std::vector<StragglerCase> cases, int count) {
  Row row{.spec = spec,
          .shape = spec.effective(workload.shape),
          .undisturbed = runs.undisturbed(),
          .outcomes = {}};
  for (StragglerCase& with : cases) {
    sim::Distribution makespans =
        runs.makespans(with.disturbance, with.disturbance.random() ? count : 1);
    row.outcomes.push_back({std::move(with), makespans});
  }
  return row;
}

Json outcome_json(const Row& row, const Outcome& outcome) {
  Json json{{"straggler", outcome.with.name},
            {"slow_down", number_json(row.slow_down(outcome.makespans.mean))}};
  if (!outcome.random()) {
    json["makespan_ms"] = to_ms(outcome.makespans.mean);
    return json;
  }
  json["p95_slow_down"] = number_json(row.slow_down(outcome.makespans.p95));
  json["distribution"] = distribution_json(outcome.makespans);
  return json;
}

Json row_json(const Row& row) {
  Json json{{"schedule", row.spec.method().name},
            {"parameters", parameters_json(row.spec.options(row.shape))}};
  add_shape(json, row.shape);
  json["undisturbed_makespan_ms"] = to_ms(row.undisturbed);
  json["stragglers"] = Json::array();
  for (const Outcome& outcome : row.outcomes) {
    json["stragglers"].push_back(outcome_json(row, outcome));
  }
  return json;
}

/// The cases are the same for all schedules, but for the numbers of the ranks.
Table table_of(const std::vector<Row>& rows) {
  std::vector<std::string> columns{"<schedule", "undisturbed ms"};
  for (const Outcome& outcome : rows.front().outcomes) {
    columns.push_back(outcome.with.name);
    if (outcome.random()) columns.insert(columns.end(), {"p50", "p95", "p99"});
  }
  Table table(columns);
  for (const Row& row : rows) {
    std::vector<std::string> cells{row.spec.text(), format_ms(row.undisturbed)};
    for (const Outcome& outcome : row.outcomes) {
      const sim::Distribution& found = outcome.makespans;
      cells.push_back(format_number(row.slow_down(found.mean)));
      if (!outcome.random()) continue;
      for (const nanoseconds t : {found.p50, found.p95, found.p99}) {
        cells.push_back(format_number(row.slow_down(t)));
      }
    }
    table.add(cells);
  }
  return table;
}

std::string text_of(const std::vector<Row>& rows, int runs,
                    const std::optional<UsualPauses>& usual) {
  std::string text =
      fmt::format("{}\nMakespan over the undisturbed one", describe_batches(rows.front().shape));
  const bool random = std::ranges::any_of(rows.front().outcomes, &Outcome::random);
  text +=
      random ? fmt::format("; of {} random runs the mean, then the percentiles.\n", runs) : ".\n";
  if (usual) text += "random: every rank, in a third of its local steps.\n";
  const bool pauses = usual && std::ranges::any_of(rows.front().outcomes, [](const Outcome& one) {
                        return one.with.name == "pauses";
                      });
  if (pauses) {
    text += fmt::format(
        "pauses: every rank stands still for {} ms after running for {} ms on average.\n",
        format_ms(usual->time), format_ms(usual->every));
  }
  return fmt::format("{}\n{}", text, table_of(rows).text());
}

int run(const Arguments& arguments) {
  const std::vector<ScheduleSpec> specs = asked_schedules(arguments, 0);
  std::vector<Workload> workloads;  // all read before the first is simulated
  for (const ScheduleSpec& spec : specs) {
    workloads.push_back(read_workload(arguments, spec, all_synchronous(specs)));
  }
  const int count = asked_runs(arguments, workloads.front());
  std::optional<UsualPauses> usual;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (progress_is_shown()) say(fmt::format("simulating {}", specs[i].text()));
    const DisturbedRuns runs(specs[i], workloads[i]);
    if (!asks_cases(arguments) && !usual) usual = usual_pauses(runs);
    rows.push_back(row_of(specs[i], workloads[i], runs,
                          usual ? usual_cases(runs, *usual) : asked_cases(arguments, runs), count));
    note_links_without_time(runs.disturbance(), runs.graph({}, 0));
  }
  note_assumptions(workloads.front(), specs.front());
  if (!arguments.has("json")) {
    print(text_of(rows, count, usual));
    return 0;
  }
  Json all = Json::array();
  for (const Row& row : rows) all.push_back(row_json(row));
  print_json({{"seed", arguments.seed()}, {"runs", count}, {"schedules", std::move(all)}});
  return 0;
}

}  // namespace

Command stragglers_command() {
  return {.name = "stragglers",
          .summary = "What slow ranks, slow links, noise and pauses cost each schedule",
          .groups = {{"Schedules",
                      {{"schedule", "SPEC", "NAME[:key=value[,key=value...]]; once for each",
                        Flag::Kind::repeated}}},
                     shape_flags(),
                     cost_flags(),
                     straggler_flags(),
                     layer_flags()},
          .run = run};
}

}  // namespace unlatch::tools
