// Chrome trace reader: complete events as tasks, joined with the names of their tracks.
#include "traces/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "schedules/error.h"
#include "traces/input_file.h"
#include "traces/json_text.h"
#include "traces/tasks_csv.h"
#include "traces/trace_events.h"

namespace unlatch {

namespace {

using nlohmann::json;

/// Process and thread number.
using Track = std::pair<std::int64_t, std::int64_t>;

/// Collects tasks and names event by event, and joins them at the end.
class Collector {
 public:
  explicit Collector(std::string_view source) { list_.source = source; }

  void event(const TraceEvent& event);
  void metadata(const json& value);
  TaskList finish();

 private:
  void task(const TraceEvent& event);
  void name(const TraceEvent& event);
  void warn_about_overlaps();

  TaskList list_;
  std::vector<Track> tracks_;  ///< one a task
  std::map<std::int64_t, std::string> process_names_;
  std::map<Track, std::string> thread_names_;
};

void Collector::event(const TraceEvent& event) {
  const std::string phase = event.phase();
  if (phase == "X") task(event);
  if (phase == "M") name(event);
}

void Collector::metadata(const json& value) {
  if (value.contains("schedule") && value["schedule"].is_string()) {
    list_.schedule = value["schedule"].get<std::string>();
  }
  if (!value.contains("stage_names") || !value["stage_names"].is_array()) return;
  for (const json& stage_name : value["stage_names"]) {
    if (stage_name.is_string()) list_.stage_names.push_back(stage_name.get<std::string>());
  }
}

void Collector::task(const TraceEvent& event) {
  TimedTask task;
  task.label = event.text("name");
  int number = -1;
  if (!split_label(task.label, task.stage, task.kind, number)) task.kind = task.label;
  const int stage = event.argument("stage");
  if (stage >= 0) task.stage = stage;
  task.batch = event.argument("batch");
  task.micro_batch = event.argument("microbatch");
  if (task.micro_batch < 0 && task.kind != "U") task.micro_batch = number;
  const nanoseconds start = event.microseconds("ts");
  const nanoseconds length = event.length("dur");
  task.span = {start, start + length};
  const std::int64_t pid = event.whole("pid");
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  if (pid < 0 || pid > largest) event.refuse("pid", "a process number");
  tracks_.emplace_back(pid, event.whole("tid", pid));
  list_.tasks.push_back(std::move(task));
}

void Collector::name(const TraceEvent& event) {
  const std::string what = event.text("name");
  if (what == "process_name") process_names_[event.whole("pid")] = event.argument_text("name");
  if (what == "thread_name") {
    thread_names_[{event.whole("pid"), event.whole("tid")}] = event.argument_text("name");
  }
}

/// The N of "rank N", else pid - 1.
int rank_of(std::int64_t pid, const std::string& process_name) {
  constexpr std::string_view prefix = "rank ";
  if (process_name.starts_with(prefix)) {
    const char* last = process_name.data() + process_name.size();
    int rank = -1;
    const auto [end, code] = std::from_chars(process_name.data() + prefix.size(), last, rank);
    if (code == std::errc() && end == last && rank >= 0) return rank;
  }
  return static_cast<int>(std::max<std::int64_t>(pid - 1, 0));
}

TaskList Collector::finish() {
  for (std::size_t i = 0; i < list_.tasks.size(); ++i) {
    TimedTask& task = list_.tasks[i];
    const auto process = process_names_.find(tracks_[i].first);
    task.rank = rank_of(tracks_[i].first,
                        process == process_names_.end() ? std::string() : process->second);
    const auto thread = thread_names_.find(tracks_[i]);
    task.lane = thread == thread_names_.end() ? fmt::format("thread {}", tracks_[i].second)
                                              : thread->second;
  }
  warn_about_overlaps();
  return std::move(list_);
}

void Collector::warn_about_overlaps() {
  std::map<Track, std::vector<const TimedTask*>> by_track;
  for (std::size_t i = 0; i < tracks_.size(); ++i) by_track[tracks_[i]].push_back(&list_.tasks[i]);
  for (auto& [track, tasks] : by_track) {
    std::stable_sort(tasks.begin(), tasks.end(), [](const TimedTask* a, const TimedTask* b) {
      if (a->span.start != b->span.start) return a->span.start < b->span.start;
      return a->span.end > b->span.end;
    });
    std::vector<const TimedTask*> open;  // each lies within the one before
    for (const TimedTask* task : tasks) {
      while (!open.empty() && open.back()->span.end <= task->span.start) open.pop_back();
      if (!open.empty() && open.back()->span.end < task->span.end) {
        list_.warnings.push_back(fmt::format(
            "{}: '{}' and '{}' half overlap by {} us on process {}, thread {}; spans of a thread "
            "must follow or contain each other, so viewers show these wrongly",
            list_.source, open.back()->label, task->label,
            us_number(open.back()->span.end - task->span.start), track.first, track.second));
      }
      open.push_back(task);
    }
  }
}

}  // namespace

TaskList parse_chrome_trace(std::string_view text, std::string_view source) {
  Collector collector(source);
  read_trace_events(text, source,
                    {.event = [&](const TraceEvent& event) { collector.event(event); },
                     .member =
                         [&](const std::string& key, const json& value) {
                           if (key == "metadata") collector.metadata(value);
                         }});
  TaskList list = collector.finish();
  require_summable(list);
  return list;
}

TaskList read_tasks(const std::string& path) {
  const std::string text = read_text(path);
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  const std::size_t begin = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  const std::size_t first = text.find_first_not_of(" \t\r\n", begin);
  require(first != std::string::npos, "{}: the file is empty; it must be a trace or tasks file",
          path);
  const bool is_json = text[first] == '{' || text[first] == '[';
  return is_json ? parse_chrome_trace(text, path) : parse_tasks_csv(text, path);
}

}  // namespace unlatch
