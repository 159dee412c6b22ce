#include "tools/run_files.h"

#include "schedules/error.h"
#include "sim/units.h"
#include "tools/terminal.h"
#include "traces/chrome_trace.h"
#include "traces/tasks_csv.h"

namespace unlatch::tools {
namespace {

TimeWindow parse_window(const Arguments& arguments, const std::string& text) {
  const auto dots = text.find("..");
  if (dots == std::string::npos) {
    arguments.refuse("trace-window", text, "must be FROM..TO, such as 100ms..200ms");
  }
  const std::string place = arguments.place("trace-window");
  const std::string_view whole = text;
  const TimeWindow window{sim::parse_duration(place, whole.substr(0, dots)),
                          sim::parse_duration(place, whole.substr(dots + 2))};
  if (window.from >= window.to) {
    arguments.refuse("trace-window", text, "must end after it begins");
  }
  return window;
}

}  // namespace

std::vector<Flag> file_flags() {
  return {{"trace", "FILE", "Write a Chrome trace (.json or .json.gz)"},
          {"trace-window", "FROM..TO", "Only tasks that touch this time, each whole (all)"},
          {"trace-ranks", "R[,R...]", "Only these ranks (all)"},
          {"tasks", "FILE", "Write the tasks as CSV"}};
}

ChromeTraceOptions asked_trace(const Arguments& arguments, int ranks) {
  for (const std::string_view name : {"trace-window", "trace-ranks"}) {
    require(arguments.has("trace") || !arguments.has(name), "{} is for --trace FILE",
            arguments.place(name));
  }
  ChromeTraceOptions options;
  if (const auto text = arguments.text("trace-window")) {
    options.window = parse_window(arguments, *text);
  }
  if (const auto text = arguments.text("trace-ranks")) {
    for (const std::string_view entry : sim::split_list(*text)) {
      options.ranks.push_back(
          static_cast<int>(sim::parse_whole(arguments.place("trace-ranks"), entry, 0, ranks - 1)));
    }
  }
  return options;
}

void write_files(const Arguments& arguments, const Simulation& simulation) {
  ChromeTraceOptions options = asked_trace(arguments, simulation.graph.ranks());
  if (const auto path = arguments.text("trace")) {
    options.memory = simulation.memory;
    const TraceSize size = chrome_trace_size(simulation.graph, simulation.timeline, options);
    constexpr std::int64_t many_events = 1'000'000;
    if (size.events > many_events) {
      say(
          fmt::format("note: {} will hold {} events, about {}; chrome://tracing opens a million, "
                      "Perfetto a few million; --trace-window and --trace-ranks write a part",
                      *path, size.events, sim::format_size(size.bytes)));
    }
    write_chrome_trace(*path, simulation.graph, simulation.timeline, options);
  }
  if (const auto path = arguments.text("tasks")) {
    write_tasks_csv(*path, simulation.graph, simulation.timeline);
  }
}

}  // namespace unlatch::tools
