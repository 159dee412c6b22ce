#include "tools/test_curve_report.h"

#include <fmt/format.h>

#include "tools/text.h"

namespace unlatch::tools {

std::vector<TimedPoint> timed_points(const FinishedRun& run) {
  const RunClock measured = clock_of(run.graph, run.result.timeline);
  std::vector<TestPoint> points = run.result.curve;
  points.push_back({.batch = run.plan.shape.batches - 1, .test = run.result.test});
  std::vector<TimedPoint> timed;
  const int resumed_at = run.result.checkpoints.resumed_at.value_or(0);
  for (const TestPoint& point : points) {
    const auto batch = static_cast<std::size_t>(point.batch);
    TimedPoint& added = timed.emplace_back(TimedPoint{
        .step = point.batch + 1, .test = point.test, .measured_ms = {}, .simulated_ms = {}});
    if (added.step > resumed_at) added.measured_ms = to_ms(measured.updates[batch]);
    if (run.plan.clock) added.simulated_ms = to_ms(run.plan.clock->updates[batch]);
  }
  return timed;
}

namespace {

/// Epochs that so many batches are, with a fraction.
double epochs_until(const models::BatchSizes& batches, int count) {
  const models::BatchSizes::Batch last = batches.batch(count - 1);
  const int begun = batches.batches_of_epochs(last.epoch);
  const int in_epoch = batches.batches_of_epochs(last.epoch + 1) - begun;
  return last.epoch + static_cast<double>(count - begun) / in_epoch;
}

}  // namespace

Json test_curve_json(const FinishedRun& run) {
  Json points = Json::array();
  for (const TimedPoint& point : timed_points(run)) {
    points.push_back({{"step", point.step},
                      {"epoch", run.plan.batches.batch(point.step - 1).epoch},
                      {"test_accuracy", point.test.accuracy},
                      {"test_loss", number_json(point.test.loss)},
                      {"time_ms", nullptr},
                      {"simulated_ms", nullptr}});
    if (point.measured_ms) points.back()["time_ms"] = *point.measured_ms;
    if (point.simulated_ms) points.back()["simulated_ms"] = *point.simulated_ms;
  }
  return points;
}

Table test_curve_table(const FinishedRun& run) {
  std::vector<std::string> columns{"step", "epochs", "test accuracy", "test loss", "seconds"};
  if (run.plan.clock) columns.emplace_back("simulated seconds");
  Table table(columns);
  for (const TimedPoint& point : timed_points(run)) {
    const double epochs = epochs_until(run.plan.batches, point.step);
    std::vector<std::string> cells{
        fmt::format("{}", point.step), format_number(epochs, 2),
        fmt::format("{:.2f}%", point.test.accuracy * 100), fmt::format("{:.4f}", point.test.loss),
        point.measured_ms ? format_number(*point.measured_ms / 1e3) : "-"};
    if (point.simulated_ms) cells.push_back(format_number(*point.simulated_ms / 1e3));
    table.add(cells);
  }
  return table;
}

}  // namespace unlatch::tools
