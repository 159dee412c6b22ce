// TraceView: ranks, threads, tasks and memory samples within the window.
#include "traces/trace_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/error.h"
#include "traces/json_text.h"

namespace unlatch {

TraceView::TraceView(const TaskGraph& graph, const Timeline& timeline,
                     const ChromeTraceOptions& options)
    : graph_(graph), timeline_(timeline), options_(options) {
  const auto& window = options.window;
  require(!window || window->from < window->to,
          "trace: the time window from {} ms to {} ms is empty; it must end after it starts",
          window ? ms_text(window->from) : "", window ? ms_text(window->to) : "");
  show_ranks();
  number_threads();
}

void TraceView::show_ranks() {
  shown_ranks_.assign(static_cast<std::size_t>(graph_.ranks()), options_.ranks.empty());
  for (const int rank : options_.ranks) {
    require(rank >= 0 && rank < graph_.ranks(), "trace: there is no rank {}; ranks are 0 to {}",
            rank, graph_.ranks() - 1);
    shown_ranks_[static_cast<std::size_t>(rank)] = true;
  }
}

void TraceView::number_threads() {
  std::vector<int> used(static_cast<std::size_t>(graph_.ranks()), 0);
  for (const Lane& lane : graph_.lanes()) {
    const bool shown = lane.engine != Engine::control && shows(lane.rank);
    threads_.push_back(shown ? ++used[lane.rank.value] : 0);
  }
}

std::string TraceView::thread_name(LaneId id) const {
  const Lane& lane = graph_.lanes()[id.value];
  const auto alike = std::count_if(
      graph_.lanes().begin(), graph_.lanes().end(),
      [&](const Lane& other) { return other.rank == lane.rank && other.engine == lane.engine; });
  if (alike == 1) return std::string(name(lane.engine));
  return fmt::format("{} of stage {}", name(lane.engine), lane.boundary.value);
}

bool TraceView::shows(TaskId id) const {
  const Task& task = graph_.task(id);
  if (is_hidden(task.op) || thread(task.lane_id()) == 0) return false;
  return !options_.window || options_.window->touches(timeline_[id]);
}

std::vector<TaskId> TraceView::tasks() const {
  std::vector<TaskId> ids;
  for (const TaskId id : graph_.ids()) {
    if (shows(id)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end(), [&](TaskId a, TaskId b) {
    const nanoseconds start_a = timeline_[a].start;
    const nanoseconds start_b = timeline_[b].start;
    return start_a != start_b ? start_a < start_b : a < b;
  });
  return ids;
}

std::vector<MemoryLevel> TraceView::samples(Rank rank) const {
  std::vector<MemoryLevel> samples;
  if (options_.memory.empty() || !shows(rank)) return samples;
  const nanoseconds end = makespan(timeline_);
  const nanoseconds last = options_.window ? std::min(options_.window->to, end) : end;
  for (const MemoryLevel& level : options_.memory[rank.value].levels) {
    if (level.at > last) break;
    const bool before = options_.window && level.at <= options_.window->from;
    if (before) samples.clear();
    samples.push_back(level);
    if (before) samples.back().at = options_.window->from;
  }
  if (!samples.empty() && samples.back().at < last) {
    samples.push_back(samples.back());
    samples.back().at = last;
  }
  return samples;
}

bool TraceView::counts_bytes() const {
  return std::any_of(options_.memory.begin(), options_.memory.end(), [](const RankMemory& rank) {
    return std::any_of(rank.levels.begin(), rank.levels.end(),
                       [](const MemoryLevel& level) { return level.bytes != 0; });
  });
}

}  // namespace unlatch
