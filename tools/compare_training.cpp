#include "tools/compare_training.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "schedules/error.h"
#include "tools/line_chart.h"
#include "tools/outputs.h"
#include "tools/terminal.h"
#include "tools/test_curve_report.h"
#include "tools/text.h"
#include "tools/workload.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

/// What is kept of one schedule's training.
struct Learned {
  std::string schedule;
  bool is_bp = false;
  double period_ms = 0;
  std::vector<TimedPoint> points;
  Json json;

  bool failed() const { return points.empty(); }  ///< diverged, mostly; json says how
  double best_accuracy() const {
    return std::ranges::max_element(points, {}, accuracy_of)->test.accuracy;
  }
  /// Null when it never got so far.
  const TimedPoint* first_at(double accuracy) const {
    const auto found = std::ranges::find_if(
        points, [&](const TimedPoint& point) { return accuracy_of(point) >= accuracy; });
    return found == points.end() ? nullptr : &*found;
  }

 private:
  static double accuracy_of(const TimedPoint& point) { return point.test.accuracy; }
};

/// Costs and sizes come from layers, batches from the data.
void require_fitting_flags(const Arguments& arguments) {
  for (const FlagGroup& group : {cost_flags(), simulated_memory_flags()}) {
    for (const Flag& flag : group.flags) {
      const bool of_layers = flag.name == "all-reduce" || flag.name == "overlap";
      require(of_layers || !arguments.has(flag.name),
              "{}: --train takes its costs from --cluster, "
              "--profile or the run itself; leave it out",
              arguments.place(flag.name));
    }
  }
  for (const std::string_view name : {"batches", "runs", "report", "trace-dir", "critical-path"}) {
    require(!arguments.has(name), "{} is not for --train; leave it out", arguments.place(name));
  }
}

/// The time is simulated where there are costs for it, and points are an epoch apart, unless asked
/// otherwise.
Arguments completed(Arguments arguments) {
  if (arguments.has("cluster") || arguments.has("profile")) {
    arguments.add("clock", {{"simulated"}, "--clock"});
  }
  if (!arguments.has("evaluate-every")) {
    arguments.add("evaluate-every", {{"epoch"}, "--evaluate-every"});
  }
  return arguments;
}

Learned learned_by(const Arguments& arguments, const ScheduleSpec& spec) {
  const FinishedRun run = run_training(arguments, spec);
  Learned learned{
      .schedule = spec.text(),
      .is_bp = spec.method().name == "bp",
      .period_ms = run.plan.clock ? *run.predicted_ms : run.steady.batch_period_ns / 1e6,
      .points = timed_points(run),
      .json = {{"schedule", spec.method().name},
               {"parameters", parameters_json(spec.options(run.plan.shape))},
               {"failed", nullptr}}};
  add_shape(learned.json, run.plan.shape);
  learned.json["batch_period_ms"] = learned.period_ms;
  learned.json["train_loss"] = number_json(run.result.losses.back());
  learned.json["test_accuracy"] = run.result.test.accuracy;
  learned.json["test_curve"] = test_curve_json(run);
  return learned;
}

/// A schedule that fails, as too large a rate makes stale ones do, leaves the others their rank.
Learned learned_or_failed(const Arguments& arguments, const ScheduleSpec& spec) {
  if (progress_is_shown()) say(fmt::format("training with {}", spec.text()));
  try {
    return learned_by(arguments, spec);
  } catch (const RunError& error) {
    say(fmt::format("warning: {}: {}", spec.text(), error.what()));
    return {.schedule = spec.text(),
            .points = {},
            .json = {{"schedule", spec.method().name}, {"failed", error.what()}}};
  }
}

/// The target; without one what all schedules reach that came to an end.
double target_of(const Arguments& arguments, const std::vector<Learned>& all) {
  if (arguments.has("target-accuracy")) return arguments.real("target-accuracy", 1, 0, 1);
  double target = 1;
  for (const Learned& learned : all) {
    if (!learned.failed()) target = std::min(target, learned.best_accuracy());
  }
  return target;
}

void write_curves(const std::string& path, const std::vector<Learned>& all, bool simulated) {
  LineChart chart{.title = "Test accuracy over time",
                  .x_name = simulated ? "simulated time, s" : "time, s",
                  .y_name = "test accuracy, %",
                  .lines = {}};
  for (const Learned& learned : all) {
    ChartLine& line = chart.lines.emplace_back(ChartLine{learned.schedule, {}});
    for (const TimedPoint& point : learned.points) {
      line.points.emplace_back(point.ms() / 1e3, point.test.accuracy * 100);
    }
  }
  write_file(path, line_chart_svg(chart));
}

Table table_of(const std::vector<Learned>& all, double target) {
  Table table({"#", "<schedule", "period ms", "test accuracy", "best",
               fmt::format("s to {:.2f}%", target * 100), "steps", "speed-up"});
  const auto bp = std::ranges::find(all, true, &Learned::is_bp);
  const TimedPoint* const of_bp = bp == all.end() ? nullptr : bp->first_at(target);
  int place = 0;
  for (const Learned& learned : all) {
    if (learned.failed()) {
      table.add({fmt::format("{}", ++place), learned.schedule, "", "failed", "", "never", "", ""});
      continue;
    }
    const TimedPoint* const point = learned.first_at(target);
    table.add(
        {fmt::format("{}", ++place), learned.schedule, format_ms(learned.period_ms),
         fmt::format("{:.2f}%", learned.points.back().test.accuracy * 100),
         fmt::format("{:.2f}%", learned.best_accuracy() * 100),
         point == nullptr ? "never" : format_number(point->ms() / 1e3),
         point == nullptr ? "" : fmt::format("{}", point->step),
         point == nullptr || of_bp == nullptr ? "" : format_number(of_bp->ms() / point->ms(), 2)});
  }
  return table;
}

}  // namespace

std::vector<Flag> training_comparison_flags() {
  return {{"train", "", "Train for real with each, and rank by the time to an accuracy",
           Flag::Kind::presence},
          {"target-accuracy", "A", "That accuracy, from 0 to 1 (the most that all reach)"},
          {"curves", "FILE.svg", "Draw the test accuracy over time"}};
}

int compare_training(const Arguments& given) {
  require_fitting_flags(given);
  require_outputs(given, {"curves"});
  const Arguments arguments = completed(given);
  const std::vector<ScheduleSpec> specs = asked_schedules(arguments, 0);
  const bool simulated = arguments.text("clock", "measured") == "simulated";
  if (!simulated) warm_up(arguments, specs.front());
  std::vector<Learned> all;
  for (const ScheduleSpec& spec : specs) all.push_back(learned_or_failed(arguments, spec));
  const double target = target_of(arguments, all);
  const auto time_of = [&](const Learned& learned) {
    const TimedPoint* const point = learned.first_at(target);
    return std::tuple{learned.failed(), point == nullptr, point == nullptr ? 0 : point->ms()};
  };
  std::ranges::stable_sort(all, {}, time_of);
  if (const auto path = arguments.text("curves")) {
    write_curves(*path, all, simulated);
  }
  const int code = std::ranges::any_of(all, &Learned::failed) ? 1 : 0;
  if (!arguments.has("json")) {
    print(table_of(all, target).text());
    return code;
  }
  Json schedules = Json::array();
  for (Learned& learned : all) {
    const TimedPoint* const point = learned.first_at(target);
    learned.json["time_to_target_ms"] = nullptr;
    if (point != nullptr) learned.json["time_to_target_ms"] = point->ms();
    schedules.push_back(std::move(learned.json));
  }
  print_json({{"target_accuracy", target}, {"schedules", schedules}});
  return code;
}

}  // namespace unlatch::tools
