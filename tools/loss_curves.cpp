#include "tools/loss_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tools/line_chart.h"
#include "tools/test_curve_report.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

/// Each point is at the last of its steps.
ChartLine training_line(const std::vector<double>& losses) {
  constexpr std::size_t most_points = 500;
  const std::size_t together = (losses.size() + most_points - 1) / most_points;
  ChartLine line{together == 1 ? "training" : fmt::format("training, means of {}", together), {}};
  for (std::size_t first = 0; first < losses.size(); first += together) {
    const std::size_t end = std::min(first + together, losses.size());
    const double sum = std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(first),
                                       losses.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
    line.points.emplace_back(end, sum / static_cast<double>(end - first));
  }
  return line;
}

ChartLine test_line(const FinishedRun& run) {
  ChartLine line{"test", {}};
  for (const TimedPoint& point : timed_points(run)) {
    line.points.emplace_back(point.step, point.test.loss);
  }
  return line;
}

}  // namespace

void write_loss_curves(const std::string& path, const FinishedRun& run) {
  LineChart chart{.title = fmt::format("{} with {}", run.plan.model.name, run.plan.spec.text()),
                  .x_name = "steps",
                  .y_name = "loss",
                  .lines = {training_line(run.result.losses)}};
  if (run.plan.test_points) chart.lines.push_back(test_line(run));
  write_file(path, line_chart_svg(chart));
}

}  // namespace unlatch::tools
