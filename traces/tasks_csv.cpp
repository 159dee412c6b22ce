// The tasks CSV: writer and strict reader.
#include "traces/tasks_csv.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "schedules/error.h"
#include "traces/atomic_file.h"
#include "traces/json_text.h"

namespace unlatch {

namespace {

constexpr std::array<std::string_view, 11> columns = {
    "task", "kind",     "stage",  "batch",         "microbatch",    "rank",
    "lane", "start_ms", "end_ms", "reads_version", "writes_version"};

std::string version_fields(const Task& task) {
  if (!is_compute(task.op)) return ",";
  if (task.op != Op::update) return fmt::format("{},", task.version);
  return fmt::format("{},{}", task.version, task.version + 1);
}

}  // namespace

void write_tasks_csv(std::ostream& out, const TaskGraph& graph, const Timeline& timeline) {
  out << fmt::format("{}\n", fmt::join(columns, ","));
  for (const TaskId id : listed_tasks(graph, timeline)) {
    const Task& task = graph.task(id);
    const Lane& lane = graph.lane(task);
    const std::string micro_batch =
        task.op == Op::update ? std::string() : fmt::format("{}", task.micro_batch.value);
    out << fmt::format("{},{},{},{},{},{},{},{},{},{}\n", label(task), letter(task.op),
                       task.stage.value, batch_of(graph, task), micro_batch, lane.rank.value,
                       name(lane.engine), ms_text(timeline[id].start), ms_text(timeline[id].end),
                       version_fields(task));
  }
  require(out.good(), "cannot write the tasks: the output stream failed");
}

void write_tasks_csv(const std::string& path, const TaskGraph& graph, const Timeline& timeline) {
  AtomicFile file(path);
  write_tasks_csv(file, graph, timeline);
  file.commit();
}

namespace {

/// One line split at its commas, with what error messages need.
class Row {
 public:
  Row(std::string_view line, std::string_view source, int number)
      : source_(source), number_(number) {
    std::size_t count = 0;
    for (;; ++count) {
      const std::size_t comma = line.find(',');
      if (count < fields_.size()) fields_[count] = line.substr(0, comma);
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    require(count + 1 == fields_.size(),
            "{}: line {} has {} fields, not {}; the file is damaged "
            "or cut off",
            source_, number_, count + 1, fields_.size());
  }

  std::string text(std::size_t column) const {
    require(!fields_[column].empty(), "{}: line {}: {} is empty", source_, number_,
            columns[column]);
    return std::string(fields_[column]);
  }

  /// A whole number from 0; `empty` allows an empty field, which is -1.
  int count(std::size_t column, bool empty = false) const {
    const std::string_view field = fields_[column];
    if (field.empty() && empty) return -1;
    int value = -1;
    const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (code != std::errc() || end != field.data() + field.size() || value < 0) {
      refuse(column, "a whole number from 0");
    }
    return value;
  }

  nanoseconds milliseconds(std::size_t column) const {
    const std::string_view field = fields_[column];
    double value = 0;
    const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
    constexpr double longest_ms = 4e12;  // keeps the difference of two within 64 bits of ns
    if (code != std::errc() || end != field.data() + field.size() ||
        !(std::abs(value) <= longest_ms)) {
      refuse(column, "a number of milliseconds");
    }
    return nanoseconds(std::llround(value * 1e6));
  }

  [[noreturn]] void refuse(std::size_t column, std::string_view wanted) const {
    fail("{}: line {}: {} is '{}', not {}", source_, number_, columns[column], fields_[column],
         wanted);
  }

 private:
  std::array<std::string_view, columns.size()> fields_;
  std::string_view source_;
  int number_;
};

TimedTask parse_task(const Row& row) {
  TimedTask task;
  task.label = row.text(0);
  task.kind = row.text(1);
  task.stage = row.count(2);
  task.batch = row.count(3, true);
  task.micro_batch = row.count(4, true);
  task.rank = row.count(5);
  task.lane = row.text(6);
  task.span = {row.milliseconds(7), row.milliseconds(8)};
  if (task.span.end < task.span.start) row.refuse(8, "at or after start_ms");
  row.count(9, true);
  row.count(10, true);
  return task;
}

/// Takes the next line off the text, without its end ("\n" or "\r\n").
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

TaskList parse_tasks_csv(std::string_view text, std::string_view source) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const std::string_view head = next_line(text);
  require(head == fmt::format("{}", fmt::join(columns, ",")),
          "{}: this is not a tasks file: its first line must be '{}', but is '{}'", source,
          fmt::join(columns, ","), head.substr(0, 200));
  TaskList list;
  list.source = source;
  for (int number = 2; !text.empty(); ++number) {
    const std::string_view line = next_line(text);
    if (!line.empty()) list.tasks.push_back(parse_task(Row(line, source, number)));
  }
  require_summable(list);
  return list;
}

}  // namespace unlatch
