#include "traces/critical_path.h"

#include <algorithm>

namespace unlatch {

namespace {

constexpr TaskId nobody{-1};

TaskId last_task(const TaskGraph& graph, const Timeline& timeline) {
  TaskId last = nobody;
  for (const TaskId id : graph.ids()) {
    if (last == nobody || timeline[id].end >= timeline[last].end) last = id;
  }
  return last;
}

/// What the task waited for longest, or nobody. R beside an F that it does not outlast waited for
/// what the F waited for.
TaskId waited_for(const TaskGraph& graph, const Timeline& timeline, TaskId task) {
  TaskId from = nobody;
  nanoseconds latest{-1};
  for (const Edge edge : graph.edges_into(task)) {
    const Span& span = timeline[edge.from()];
    const bool beside = edge.kind() == EdgeKind::beside;
    const bool started_together = beside && span.start == timeline[task].start;
    if (started_together) continue;  // the same predecessors: they are among R's own edges
    const nanoseconds ready = beside ? std::min(span.end, timeline[task].start) : span.end;
    if (ready > latest) {
      latest = ready;
      from = edge.from();
    }
  }
  return from;
}

}  // namespace

CriticalPath critical_path(const TaskGraph& graph, const Timeline& timeline, int most) {
  CriticalPath path;
  for (TaskId id = last_task(graph, timeline); id != nobody; id = waited_for(graph, timeline, id)) {
    if (!is_hidden(graph.task(id).op)) path.tasks.push_back(id);
  }
  std::reverse(path.tasks.begin(), path.tasks.end());
  path.length = static_cast<int>(path.tasks.size());
  if (most > 0 && path.length > most) {
    path.tasks.erase(path.tasks.begin() + most / 2, path.tasks.end() - (most - most / 2));
  }
  return path;
}

}  // namespace unlatch
