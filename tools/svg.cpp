#include "tools/svg.h"

#include <fmt/format.h>

#include <iterator>

#include "tools/table.h"

namespace unlatch::tools {

std::string svg_head(double width, double height, std::string_view title, std::string_view style) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n<style>\n"
      "text {{ font: 12px system-ui, sans-serif; fill: #1c1c1c; }}\n"
      ".grid {{ stroke: #ddd; }} {3}\n</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      width, height, escape_html(title), style);
}

std::string_view svg_colour(int number) {
  constexpr std::string_view colours[]{"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
                                       "#8c564b", "#e377c2", "#17becf", "#7f7f7f", "#bcbd22"};
  return colours[static_cast<std::size_t>(number) % std::size(colours)];
}

std::string svg_vertical_tick(double x, double y1, double y2, std::string_view text) {
  return fmt::format(
      "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n"
      "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
      x, y1, y2, y2 + 18, text);
}

std::string svg_horizontal_tick(double y, double x1, double x2, std::string_view text) {
  return fmt::format(
      "<line class=\"grid\" x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\"/>\n"
      "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
      y, x1, x2, x1 - 6, y + 4, text);
}

}  // namespace unlatch::tools
