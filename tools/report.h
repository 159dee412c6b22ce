// Report: one self-contained HTML page that compares schedules, timelines drawn as SVG.
#pragma once

#include <string>
#include <vector>

#include "tools/table.h"
#include "traces/timeline.h"

namespace unlatch::tools {

/// One compute span of a drawn timeline.
struct Bar {
  int rank = 0;
  Engine engine = Engine::compute;
  Op op = Op::forward;
  std::string label;
  Span span;
};

struct DrawnTimeline {
  std::string title;     ///< the specification
  std::string subtitle;  ///< its main figures
  int ranks = 0;
  std::vector<Bar> bars;  ///< the first ones by start; all of them when not `cut`
  bool cut = false;
  nanoseconds makespan{0};
};

/// The spans that a drawing shows: F, B, I, W, R and U by start, a few thousand at most.
DrawnTimeline drawn_timeline(const TaskGraph& graph, const Timeline& timeline);

/// Writes the page, whole or not at all. `settings` are the flags that lead to these figures.
void write_report(const std::string& path, const std::string& settings, const Table& table,
                  const std::vector<DrawnTimeline>& timelines);

}  // namespace unlatch::tools
