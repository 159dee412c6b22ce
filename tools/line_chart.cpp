#include "tools/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/svg.h"
#include "tools/table.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

constexpr double width = 960, height = 540, left = 80, right = 230, top = 40, bottom = 60;

constexpr std::string_view style = ".line { fill: none; stroke-width: 1.5; }";

/// From the least to the most of some values, with about six round ticks.
class Axis {
 public:
  Axis(double least, double most, double from, double to)
      : least_(least), most_(most > least ? most : least + 1), from_(from), to_(to) {}
  double at(double value) const {
    return from_ + (to_ - from_) * (value - least_) / (most_ - least_);
  }
  std::vector<double> ticks() const {
    const double rough = (most_ - least_) / 6;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double nice : {5.0, 2.0, 1.0}) {
      if (nice * power >= rough) step = nice * power;
    }
    std::vector<double> ticks;
    for (auto n = static_cast<std::int64_t>(std::ceil(least_ / step)); n * step <= most_; ++n) {
      ticks.push_back(static_cast<double>(n) * step);
    }
    return ticks;
  }

 private:
  double least_, most_, from_, to_;
};

bool is_drawn(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

template <double std::pair<double, double>::*Part>
Axis axis_of(const LineChart& chart, double from, double to) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const ChartLine& line : chart.lines) {
    for (const auto& point : line.points) {
      if (!is_drawn(point)) continue;
      least = std::min(least, point.*Part);
      most = std::max(most, point.*Part);
    }
  }
  return most < least ? Axis(0, 1, from, to) : Axis(least, most, from, to);
}

std::string axes(const LineChart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : x.ticks()) {
    svg += svg_vertical_tick(x.at(tick), top, height - bottom, format_number(tick, 6));
  }
  for (const double tick : y.ticks()) {
    svg += svg_horizontal_tick(y.at(tick), left, width - right, format_number(tick, 6));
  }
  return svg + fmt::format(
                   "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n"
                   "<text x=\"{}\" y=\"{}\">{}</text>\n",
                   (left + width - right) / 2, height - 14, escape_html(chart.x_name), left,
                   top - 10, escape_html(chart.y_name));
}

std::string polyline(const ChartLine& line, const Axis& x, const Axis& y, int number) {
  std::string points;
  for (const auto& point : line.points) {
    if (is_drawn(point))
      points += fmt::format("{:.1f},{:.1f} ", x.at(point.first), y.at(point.second));
  }
  return fmt::format("<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>\n", svg_colour(number),
                     points);
}

std::string legend_entry(const ChartLine& line, int number) {
  const double x = width - right + 20, y = top + 10 + 18 * number;
  return fmt::format(
      "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" stroke-width=\"3\"/>"
      "<text x=\"{4}\" y=\"{5}\">{6}</text>\n",
      x, y, x + 18, svg_colour(number), x + 24, y + 4, escape_html(line.name));
}

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  const Axis x = axis_of<&std::pair<double, double>::first>(chart, left, width - right);
  const Axis y = axis_of<&std::pair<double, double>::second>(chart, height - bottom, top);
  std::string svg = svg_head(width, height, chart.title, style) + axes(chart, x, y);
  int number = 0;
  for (const ChartLine& line : chart.lines) {
    svg += polyline(line, x, y, number) + legend_entry(line, number);
    ++number;
  }
  return svg + "</svg>\n";
}

}  // namespace unlatch::tools
