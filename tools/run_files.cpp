#include "tools/run_files.h"

#include "schedules/error.h"
#include "sim/units.h"
#include "tools/placed_errors.h"
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

std::string size_note(const std::string& path, const TraceSize& size) {
  constexpr std::int64_t many_events = 1'000'000;
  return fmt::format("note: {} will hold {} event{}, about {}{}", path, size.events,
                     size.events == 1 ? "" : "s", sim::format_size(size.bytes),
                     size.events <= many_events
                         ? ""
                         : "; chrome://tracing opens a million, Perfetto a few million; "
                           "--trace-window and --trace-ranks write a part");
}

/// "0-3,7" of 0..ranks - 1.
std::vector<int> parse_ranks(const std::string& place, const std::string& text, int ranks) {
  std::vector<int> all;
  for (const std::string_view entry : sim::split_list(text)) {
    const auto dash = entry.find('-', 1);  // behind a sign, which the number refuses
    const auto first = sim::parse_whole(place, entry.substr(0, dash), 0, ranks - 1);
    const auto last = dash == std::string_view::npos
                          ? first
                          : sim::parse_whole(place, entry.substr(dash + 1), 0, ranks - 1);
    require(first <= last, "{} '{}': '{}' ends before it begins", place, text, entry);
    for (auto rank = first; rank <= last; ++rank) all.push_back(static_cast<int>(rank));
  }
  return all;
}

}  // namespace

std::vector<Flag> file_flags() {
  return {{"trace", "FILE", "Write a Chrome trace (.json or .json.gz)"},
          {"trace-window", "FROM..TO", "Only tasks that touch this time, each whole (all)"},
          {"trace-ranks", "R[-R][,R...]", "Only these ranks, such as 0-3,7 (all)"},
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
    options.ranks = parse_ranks(arguments.place("trace-ranks"), *text, ranks);
  }
  return options;
}

void write_files(const Arguments& arguments, const Simulation& simulation) {
  ChromeTraceOptions options = asked_trace(arguments, simulation.graph.ranks());
  if (const auto path = arguments.text("trace")) {
    options.memory = simulation.memory;
    const TraceSize size = chrome_trace_size(simulation.graph, simulation.timeline, options);
    say(size_note(*path, size));
    write_chrome_trace(*path, simulation.graph, simulation.timeline, options);
  }
  if (const auto path = arguments.text("tasks")) {
    reading(arguments, "tasks",
            [&] { write_tasks_csv(*path, simulation.graph, simulation.timeline); });
  }
}

}  // namespace unlatch::tools
