// TaskList: from a graph and its timeline, and the words of task labels.
#include "traces/task_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "schedules/error.h"

namespace unlatch {

std::vector<TaskId> listed_tasks(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<TaskId> ids;
  for (const TaskId id : graph.ids()) {
    if (!is_hidden(graph.task(id).op)) ids.push_back(id);
  }
  const auto place = [&](TaskId id) {
    const Lane& lane = graph.lane(graph.task(id));
    return std::tuple(timeline[id].start, lane.rank, name(lane.engine));
  };
  std::sort(ids.begin(), ids.end(), [&](TaskId a, TaskId b) {
    const auto place_a = place(a);
    const auto place_b = place(b);
    if (place_a != place_b) return place_a < place_b;
    return label(graph.task(a)) < label(graph.task(b));
  });
  return ids;
}

TaskList task_list(const TaskGraph& graph, const Timeline& timeline, std::string_view source) {
  TaskList list;
  list.source = source;
  list.schedule = graph.schedule();
  for (const TaskId id : listed_tasks(graph, timeline)) {
    const Task& task = graph.task(id);
    const Lane& lane = graph.lane(task);
    TimedTask timed;
    timed.label = label(task);
    timed.kind = letter(task.op);
    timed.stage = task.stage.value;
    timed.batch = batch_of(graph, task);
    timed.micro_batch = task.op == Op::update ? -1 : task.micro_batch.value;
    timed.rank = lane.rank.value;
    timed.lane = name(lane.engine);
    timed.span = timeline[id];
    list.tasks.push_back(std::move(timed));
  }
  return list;
}

void require_summable(const TaskList& list) {
  double sum_ns = 0;
  for (const TimedTask& task : list.tasks)
    sum_ns += static_cast<double>(task.span.length().count());
  constexpr double most_ns = 9e18;
  require(sum_ns < most_ns,
          "{}: its tasks last {:.3g} s together, more than the 292 years that can be counted; are "
          "its times in another unit?",
          list.source, sum_ns / 1e9);
}

bool is_compute_kind(std::string_view kind) {
  return kind.size() == 1 && std::string_view("FBIWRU").find(kind[0]) != std::string_view::npos;
}

bool is_transfer_kind(std::string_view kind) {
  return kind.starts_with("SEND_") || kind.starts_with("RECV_");
}

namespace {

constexpr std::string_view digits = "0123456789";
constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";

bool to_int(std::string_view text, int& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

}  // namespace

bool split_label(std::string_view label, int& stage, std::string& kind, int& number) {
  const std::size_t first = std::min(label.find_first_not_of(digits), label.size());
  const std::size_t last = std::min(label.find_first_not_of(letters, first), label.size());
  if (first == last || last == label.size()) return false;
  int parsed_stage = -1;
  int parsed_number = -1;
  if (first > 0 && !to_int(label.substr(0, first), parsed_stage)) return false;
  if (!to_int(label.substr(last), parsed_number)) return false;
  stage = parsed_stage;
  number = parsed_number;
  kind = label.substr(first, last - first);
  return true;
}

}  // namespace unlatch
