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

/// What the task waited for longest, or nobody. R waits for the same as the F beside it, and for
/// the F itself only where it starts later.
TaskId waited_for(const TaskGraph& graph, const Timeline& timeline, TaskId task) {
  TaskId from = nobody;
  nanoseconds latest{-1};
  for (const Edge edge : graph.edges_into(task)) {
    nanoseconds ready = timeline[edge.from()].end;
    if (edge.kind() == EdgeKind::beside) ready = std::min(ready, timeline[task].start);
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
