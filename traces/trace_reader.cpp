// Chrome trace reader: one event at a time, so that a large file is never held as a JSON tree.
#include "traces/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "schedules/error.h"
#include "traces/input_file.h"
#include "traces/json_text.h"
#include "traces/tasks_csv.h"

namespace unlatch {

namespace {

using nlohmann::json;

/// Process and thread number.
using Track = std::pair<std::int64_t, std::int64_t>;

/// One event of the file, with what messages about it need.
class Event {
 public:
  Event(const json& value, std::string_view source, std::int64_t index)
      : value_(value), source_(source), index_(index) {}

  std::string phase() const { return text("ph"); }

  std::string text(const char* key) const {
    const json& field = at(key);
    if (!field.is_string()) refuse(key, "text");
    return field.get<std::string>();
  }

  std::int64_t whole(const char* key) const {
    const json& field = at(key);
    if (!field.is_number_integer()) refuse(key, "a whole number");
    return field.get<std::int64_t>();
  }

  std::int64_t whole(const char* key, std::int64_t otherwise) const {
    return value_.contains(key) ? whole(key) : otherwise;
  }

  nanoseconds microseconds(const char* key) const {
    const json& field = at(key);
    // Keeps the nanoseconds from the earliest start to the latest end (start + dur) in 64 bits.
    constexpr double longest_us = 3e15;
    const double value = field.is_number() ? field.get<double>() : longest_us * 2;
    if (!(std::abs(value) <= longest_us)) refuse(key, "a number of microseconds");
    if (field.is_number_integer()) return nanoseconds(field.get<std::int64_t>() * 1000);
    // Whole and fractional parts apart: a base of years must not swallow nanoseconds.
    const double whole = std::floor(value);
    return nanoseconds(std::llround(whole) * 1000 + std::llround((value - whole) * 1000));
  }

  /// A number of args, -1 when it is not there.
  int argument(const char* key) const {
    const auto args = value_.find("args");
    if (args == value_.end() || !args->is_object() || !args->contains(key)) return -1;
    const json& field = (*args)[key];
    if (!field.is_number_integer()) return -1;
    const auto number = field.get<std::int64_t>();
    if (number > std::numeric_limits<int>::max()) refuse(key, "a number that fits 32 bits");
    return number < 0 ? -1 : static_cast<int>(number);
  }

  std::string argument_text(const char* key) const {
    const json& args = at("args");
    const bool found = args.is_object() && args.contains(key) && args[key].is_string();
    if (!found) refuse("args", fmt::format("an object with a text '{}'", key));
    return args[key].get<std::string>();
  }

  [[noreturn]] void refuse(std::string_view key, std::string_view wanted) const {
    fail("{}: event {} ({}): '{}' is not {}", source_, index_, excerpt(), key, wanted);
  }

 private:
  const json& at(const char* key) const {
    const auto found = value_.find(key);
    require(found != value_.end(), "{}: event {} ({}) has no '{}'", source_, index_, excerpt(),
            key);
    return *found;
  }

  std::string excerpt() const {
    constexpr std::size_t longest = 60;
    std::string text = value_.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > longest) text = fmt::format("{}..", text.substr(0, longest));
    return text;
  }

  const json& value_;
  std::string_view source_;
  std::int64_t index_;
};

/// Collects tasks and names event by event, and joins them at the end.
class Collector {
 public:
  explicit Collector(std::string_view source) { list_.source = source; }

  void event(const json& value);
  void metadata(const json& value);
  TaskList finish();

 private:
  void task(const Event& event);
  void name(const Event& event);
  void warn_about_overlaps();

  TaskList list_;
  std::vector<Track> tracks_;  ///< one a task
  std::map<std::int64_t, std::string> process_names_;
  std::map<Track, std::string> thread_names_;
  std::int64_t index_ = 0;
};

void Collector::event(const json& value) {
  const Event event(value, list_.source, index_);
  ++index_;
  if (value.empty()) return;  // {}: how some writers end a list with a comma
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

void Collector::task(const Event& event) {
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
  const nanoseconds length = event.microseconds("dur");
  if (length < nanoseconds(0)) event.refuse("dur", "0 or more");
  task.span = {start, start + length};
  const std::int64_t pid = event.whole("pid");
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  if (pid < 0 || pid > largest) event.refuse("pid", "a process number");
  tracks_.emplace_back(pid, event.whole("tid", pid));
  list_.tasks.push_back(std::move(task));
}

void Collector::name(const Event& event) {
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

/// Hands each event to the collector as soon as its closing brace is read, and then forgets it.
class EventFilter {
 public:
  EventFilter(Collector& collector, std::string_view source)
      : collector_(collector), source_(source) {}

  bool operator()(int depth, json::parse_event_t what, json& value) {
    using Type = json::parse_event_t;
    require(depth <= most_depth, "{}: it is nested more than {} deep", source_, most_depth);
    if (depth == 0 && what == Type::array_start) in_events_ = bare_array_ = true;
    if (depth == 1 && what == Type::key && !bare_array_) {
      key_ = value.get<std::string>();
      in_events_ = key_ == "traceEvents";
    }
    if (depth == 1 && what == Type::array_start && in_events_) found_ = true;
    if (depth == 1 && what == Type::object_end && !bare_array_ && key_ == "metadata") {
      collector_.metadata(value);
    }
    if (!in_events_ || depth != (bare_array_ ? 1 : 2)) return true;
    if (what == Type::object_end) {
      collector_.event(value);
      return false;
    }
    require(what != Type::array_end && what != Type::value,
            "{}: the events must be objects, but one is {}", source_, value.dump());
    return true;
  }

  bool found_events() const { return found_ || bare_array_; }

 private:
  static constexpr int most_depth = 100;  // values are printed by recursion
  Collector& collector_;
  std::string_view source_;
  std::string key_;
  bool bare_array_ = false;
  bool in_events_ = false;
  bool found_ = false;
};

}  // namespace

TaskList parse_chrome_trace(std::string_view text, std::string_view source) {
  Collector collector(source);
  EventFilter filter(collector, source);
  try {
    // By reference: the parser would copy the filter.
    const json ignored = json::parse(text, [&](int depth, json::parse_event_t what, json& value) {
      return filter(depth, what, value);
    });
  } catch (const json::parse_error& error) {
    fail("{}: this is not complete JSON: it breaks at byte {} of {}{}", source, error.byte,
         text.size(), error.byte >= text.size() ? ", where the file ends too early" : "");
  } catch (const json::exception&) {
    fail("{}: a number in it is too large", source);
  }
  require(filter.found_events(),
          "{}: this is JSON, but not a Chrome trace: it has no list "
          "'traceEvents'",
          source);
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
