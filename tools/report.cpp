#include "tools/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/text.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

constexpr std::size_t most_bars = 3000;
constexpr double width = 1120, left_margin = 70, row_height = 26, row_gap = 6, axis_height = 24;

constexpr std::string_view style = R"css(
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1240px; padding: 0 1em;
       color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: 0.25em 0.8em; border-bottom: 1px solid #ddd; text-align: right; }
th { border-bottom: 2px solid #888; } td.left { text-align: left; }
code { background: #f3f3f3; padding: 0.1em 0.3em; }
svg { display: block; margin: 0.3em 0 1.5em; } svg text { font: 12px system-ui, sans-serif; }
.F { fill: #6baed6; } .B { fill: #74c476; } .I { fill: #a1d99b; } .W { fill: #c7e9c0; }
.R { fill: #fdae6b; } .U { fill: #9e9ac8; } .row { fill: #f4f4f4; }
.key span { display: inline-block; padding: 0 0.6em; margin-right: 0.4em; }
)css";

constexpr std::string_view key = R"html(<p class="key">
<span style="background:#6baed6">F forward</span><span style="background:#74c476">B backward</span>
<span style="background:#a1d99b">I input gradient</span>
<span style="background:#c7e9c0">W weight gradient</span>
<span style="background:#fdae6b">R recompute</span><span style="background:#9e9ac8">U update</span>
grey: idle</p>
)html";

double row_top(int rank) { return axis_height + rank * (row_height + row_gap); }

/// Time to horizontal place.
struct Scale {
  double ns_shown;
  double x(nanoseconds t) const {
    return left_margin + (width - left_margin) * static_cast<double>(t.count()) / ns_shown;
  }
};

std::string bar_svg(const Bar& bar, const Scale& scale, bool two_lanes) {
  const bool lower = bar.engine == Engine::recompute;
  const double height = two_lanes ? row_height / 2 : row_height;
  const double top = row_top(bar.rank) + (lower ? height : 0);
  const double x = scale.x(bar.span.start);
  const double wide = std::max(scale.x(bar.span.end) - x, 0.5);  // an update of no length is seen
  std::string svg = fmt::format(
      "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
      "stroke=\"#fff\" stroke-width=\"0.4\"><title>{}: {} to {} ms</title></rect>\n",
      letter(bar.op), x, top, wide, height, bar.label, format_ms(bar.span.start),
      format_ms(bar.span.end));
  constexpr double character = 7;
  if (!two_lanes && wide > character * static_cast<double>(bar.label.size())) {
    svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       x + wide / 2, top + height / 2 + 4, bar.label);
  }
  return svg;
}

std::string svg_of(const DrawnTimeline& timeline, nanoseconds shown) {
  const Scale scale{static_cast<double>(std::max<std::int64_t>(shown.count(), 1))};
  const double height = row_top(timeline.ranks) + row_gap;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0} {1:.0f}\">\n",
      width + 10, height);
  svg += fmt::format("<text x=\"{:.0f}\" y=\"14\">0</text>\n", left_margin);
  svg += fmt::format("<text x=\"{:.0f}\" y=\"14\" text-anchor=\"end\">{} ms</text>\n", width,
                     format_ms(shown));
  for (int rank = 0; rank < timeline.ranks; ++rank) {
    const double top = row_top(rank);
    svg +=
        fmt::format("<text x=\"0\" y=\"{:.1f}\">rank {}</text>\n", top + row_height / 2 + 4, rank);
    svg += fmt::format(
        "<rect class=\"row\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n",
        left_margin, top, width - left_margin, row_height);
  }
  const bool two_lanes = std::ranges::any_of(
      timeline.bars, [](const Bar& bar) { return bar.engine == Engine::recompute; });
  for (const Bar& bar : timeline.bars) {
    if (bar.span.end <= shown) svg += bar_svg(bar, scale, two_lanes);
  }
  return svg + "</svg>\n";
}

/// The same stretch of time for all, so that the eye can compare: as far as every timeline that is
/// cut still has its bars.
nanoseconds shown_time(const std::vector<DrawnTimeline>& timelines) {
  nanoseconds longest{0};
  for (const DrawnTimeline& t : timelines) longest = std::max(longest, t.makespan);
  for (const DrawnTimeline& t : timelines) {
    if (t.cut) longest = std::min(longest, t.bars.back().span.start);
  }
  return longest;
}

}  // namespace

DrawnTimeline drawn_timeline(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<TaskId> ids;
  for (const TaskId id : graph.ids()) {
    if (is_compute(graph.task(id).op)) ids.push_back(id);
  }
  DrawnTimeline drawn;
  drawn.cut = ids.size() > most_bars;
  const std::size_t count = std::min(ids.size(), most_bars);
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(count), {},
                            [&](TaskId id) {
                              return std::pair{timeline[id].start, id};
                            });
  ids.resize(count);
  drawn.ranks = graph.ranks();
  drawn.makespan = makespan(timeline);
  for (const TaskId id : ids) {
    const Task& task = graph.task(id);
    drawn.bars.push_back({.rank = graph.rank(task).value,
                          .engine = graph.lane(task).engine,
                          .op = task.op,
                          .label = label(task),
                          .span = timeline[id]});
  }
  return drawn;
}

void write_report(const std::string& path, const std::string& settings, const Table& table,
                  const std::vector<DrawnTimeline>& timelines) {
  AtomicFile file(path);
  file << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
       << "<title>unlatch compare</title>\n<style>" << style << "</style>\n</head>\n<body>\n"
       << "<h1>Schedules compared</h1>\n<p><code>" << escape_html(settings) << "</code></p>\n"
       << table.html();
  const nanoseconds shown = shown_time(timelines);
  file << "<h2>Timelines</h2>\n<p>All on the same scale, from 0 to " << format_ms(shown)
       << " ms.</p>\n"
       << key;
  for (const DrawnTimeline& timeline : timelines) {
    file << "<h3>" << escape_html(timeline.title) << "</h3>\n<p>" << escape_html(timeline.subtitle);
    if (timeline.makespan > shown) {
      file << "; the run goes on to " << format_ms(timeline.makespan) << " ms";
    }
    file << "</p>\n" << svg_of(timeline, shown);
  }
  file << "</body>\n</html>\n";
  file.commit();
}

}  // namespace unlatch::tools
