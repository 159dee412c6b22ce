#include "schedules/graph.h"

#include <cassert>
#include <utility>

namespace unlatch {

TaskGraph::TaskGraph(Parts parts) : parts_(std::move(parts)) {
  assert(parts_.first_edge.size() == parts_.tasks.size() + 1);
  assert(parts_.first_edge.back() == parts_.edges.size());
  assert(static_cast<int>(parts_.rank_of_stage.size()) == parts_.shape.stages);
#ifndef NDEBUG
  for (const TaskId id : up_to<TaskId>(size())) {
    assert(task(id).lane < parts_.lanes.size());
    for (const Edge edge : edges_into(id)) assert(edge.from() < id);
  }
#endif
}

TaskGraph::Parts TaskGraph::frame() const {
  Parts frame;
  frame.schedule = parts_.schedule;
  frame.learning = parts_.learning;
  frame.shape = parts_.shape;
  frame.rank_of_stage = parts_.rank_of_stage;
  frame.first_edge = {0};
  return frame;
}

MicroBatch TaskGraph::origin(Stage k, MicroBatch i) const {
  if (parts_.learning.sources.empty()) return i;
  for (; !shape().is_first(k); k = k - 1) i = source(k, i);
  return i;
}

std::size_t TaskGraph::memory_bytes() const {
  return parts_.tasks.capacity() * sizeof(Task) + parts_.edges.capacity() * sizeof(Edge) +
         parts_.first_edge.capacity() * sizeof(std::uint32_t) +
         parts_.lanes.capacity() * sizeof(Lane) + parts_.rank_of_stage.capacity() * sizeof(Rank);
}

bool crosses_ranks(const TaskGraph& graph, Edge edge, const Task& to) {
  const bool data = edge.kind() == EdgeKind::activation || edge.kind() == EdgeKind::gradient;
  return data && graph.rank(graph.task(edge.from())) != graph.rank(to);
}

std::vector<std::vector<TaskId>> tasks_by_lane(const TaskGraph& graph) {
  std::vector<std::size_t> counts(graph.lanes().size(), 0);
  for (const Task& task : graph.tasks()) ++counts[task.lane];
  std::vector<std::vector<TaskId>> lanes(counts.size());
  for (std::size_t lane = 0; lane < counts.size(); ++lane) lanes[lane].reserve(counts[lane]);
  for (const TaskId id : graph.ids()) lanes[graph.task(id).lane].push_back(id);
  return lanes;
}

}  // namespace unlatch
