// Messages: data edges between ranks, with the hidden tasks at their ends looked through.
#include "traces/messages.h"

#include <utility>

namespace unlatch {

namespace {

constexpr TaskId none{-1};

/// F and B (or I) of each stage and micro-batch.
class DataTasks {
 public:
  explicit DataTasks(const TaskGraph& graph)
      : columns_(graph.shape().all_micro_batches()),
        forward_(cells(graph), none),
        backward_(cells(graph), none),
        has_feedback_(graph.learning().local_gradients.source == GradientSource::feedback) {
    for (const TaskId id : graph.ids()) {
      const Task& task = graph.task(id);
      if (task.op == Op::forward) forward_[cell(task)] = id;
      if (gives_input_gradient(task.op)) backward_[cell(task)] = id;
    }
  }

  /// The compute task that a task stands for: itself, or the one it hands on or fetches for.
  TaskId of(const TaskGraph& graph, TaskId id) const {
    const Task& task = graph.task(id);
    switch (task.op) {
      case Op::push_forward:
      case Op::pop_forward:
      case Op::send_forward:
        return forward_[cell(task)];
      case Op::push_backward:
      case Op::pop_backward:
      case Op::send_backward:
        return (has_feedback_ ? forward_ : backward_)[cell(task)];
      case Op::barrier:
        return none;
      default:
        return id;
    }
  }

 private:
  static std::size_t cells(const TaskGraph& graph) {
    return static_cast<std::size_t>(graph.shape().stages) *
           static_cast<std::size_t>(graph.shape().all_micro_batches());
  }
  std::size_t cell(const Task& task) const {
    return static_cast<std::size_t>(task.stage.value) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(task.micro_batch.value);
  }

  int columns_;
  std::vector<TaskId> forward_;
  std::vector<TaskId> backward_;
  bool has_feedback_;  ///< what goes back is the error that the last F found
};

}  // namespace

Messages::Messages(const TaskGraph& graph) : source_(static_cast<std::size_t>(graph.size()), none) {
  const DataTasks data(graph);
  std::vector<TaskId> learnt(graph.lanes().size(), none);
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    // What only trains a synthesiser is used by the backward after it, not by that of its batch.
    if (is_compute(task.op) && learnt[task.lane] != none) {
      source_[id.value] = std::exchange(learnt[task.lane], none);
    }
    for (const Edge edge : graph.edges_into(id)) {
      if (!crosses_ranks(graph, edge, task)) continue;
      const TaskId from = data.of(graph, edge.from());
      if (task.has(learns)) {
        learnt[task.lane] = from;
        continue;
      }
      const TaskId to = data.of(graph, id);
      if (from != none && to != none) source_[to.value] = from;
    }
  }
}

std::vector<Message> Messages::all() const {
  std::vector<Message> messages;
  for (const TaskId to : up_to<TaskId>(static_cast<int>(source_.size()))) {
    if (source(to) != none) messages.push_back({source(to), to});
  }
  return messages;
}

}  // namespace unlatch
