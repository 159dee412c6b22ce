#include "schedules/graph_parts.h"

#include <algorithm>
#include <ranges>

namespace unlatch {

std::vector<int> first_batches_that_need(const TaskGraph& graph) {
  std::vector<int> first(graph.size());
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    const bool counts = is_work(task.op) || task.has(learns);
    first[id.value] = counts ? batch_of(graph, task) : graph.shape().batches - 1;
  }
  for (int id = graph.size() - 1; id >= 0; --id) {
    for (const Edge edge : graph.edges_into(TaskId{id})) {
      int& before = first[edge.from().value];
      before = std::min(before, first[id]);
    }
  }
  return first;
}

TaskGraph part_of(const TaskGraph& graph, std::span<const TaskId> tasks) {
  TaskGraph::Parts part = graph.frame();
  part.lanes.assign(graph.lanes().begin(), graph.lanes().end());
  for (const TaskId id : tasks) {
    part.tasks.push_back(graph.task(id));
    for (const Edge edge : graph.edges_into(id)) {
      const auto from = std::ranges::lower_bound(tasks, edge.from());
      if (*from != edge.from()) continue;  // at the latest the task itself is not less
      part.edges.emplace_back(TaskId{static_cast<std::int32_t>(from - tasks.begin())}, edge.kind());
    }
    part.first_edge.push_back(static_cast<std::uint32_t>(part.edges.size()));
  }
  return TaskGraph(std::move(part));
}

}  // namespace unlatch
