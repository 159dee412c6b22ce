// A chart of lines as SVG: curves of training.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace unlatch::tools {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< by x
};

struct LineChart {
  std::string title;
  std::string x_name, y_name;  ///< with units
  std::vector<ChartLine> lines;
};

/// One picture, axes from the least to the most value, a legend beside it. Points that are no
/// numbers are left out.
std::string line_chart_svg(const LineChart& chart);

}  // namespace unlatch::tools
