#include "sim/time_order.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "sim/pauses.h"

namespace unlatch::sim {
namespace {

/// Runs a graph task by task in the order in which they become ready; a server is one more thing
/// that an update waits for. R beside F counts as if it followed: only its own stage waits for it.
class ArrivalSimulation {
 public:
  ArrivalSimulation(const TaskGraph& graph, const CostModel& costs)
      : graph_(graph),
        costs_(costs),
        ready_(graph.size(), 0),
        waits_for_(graph.size(), 0),
        server_free_(graph.shape().stages_a_copy(), 0),
        order_(graph.shape().stages_a_copy()) {
    find_successors();
    if (const Pauses* pauses = costs.pauses()) clocks_.emplace(*pauses);
  }

  std::vector<std::vector<int>> run() {
    for (const TaskId id : graph_.ids()) {
      if (waits_for_[id.value] == 0) push(id.value);
    }
    while (!queue_.empty()) {
      const int id = std::get<3>(queue_.top());
      queue_.pop();
      const std::int64_t end = finish(id);
      for (auto next = first_successor_[id]; next < first_successor_[id + 1]; ++next) {
        const int to = successors_[next];
        ready_[to] = std::max(ready_[to], end);
        if (--waits_for_[to] == 0) push(to);
      }
    }
    return std::move(order_);
  }

 private:
  /// Ready time, then updates by copy, then the order of the graph.
  using Entry = std::tuple<std::int64_t, int, int, int>;

  void push(int id) {
    const Task& task = graph_.task(TaskId{id});
    const bool update = task.op == Op::update;
    queue_.emplace(ready_[id], update ? 1 : 0, update ? graph_.shape().copy_of(task.stage) : 0, id);
  }

  std::int64_t finish(int id) {
    const Task& task = graph_.task(TaskId{id});
    if (task.op != Op::update) return end_of(task, ready_[id]);
    const int server = graph_.shape().model_stage(task.stage).value;
    order_[server].push_back(graph_.shape().copy_of(task.stage));
    return server_free_[server] = end_of(task, std::max(server_free_[server], ready_[id]));
  }

  std::int64_t end_of(const Task& task, std::int64_t start) {
    const nanoseconds length = costs_.duration(task);
    return clocks_ ? clocks_->run(task, nanoseconds(start), length).end.count()
                   : start + length.count();
  }

  void find_successors() {
    first_successor_.assign(graph_.size() + 1, 0);
    for (const Edge edge : graph_.edges()) ++first_successor_[edge.from().value + 1];
    for (int id = 0; id < graph_.size(); ++id) first_successor_[id + 1] += first_successor_[id];
    successors_.resize(graph_.edges().size());
    std::vector<std::size_t> next(first_successor_.begin(), first_successor_.end() - 1);
    for (const TaskId id : graph_.ids()) {
      for (const Edge edge : graph_.edges_into(id)) {
        successors_[next[edge.from().value]++] = id.value;
        ++waits_for_[id.value];
      }
    }
  }

  const TaskGraph& graph_;
  const CostModel& costs_;
  std::optional<LaneClocks> clocks_;  ///< where lanes stand still at times
  std::vector<std::int64_t> ready_;   ///< by task, ns
  std::vector<int> waits_for_;        ///< by task: edges whose task has not ended
  std::vector<std::size_t> first_successor_;
  std::vector<int> successors_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<std::int64_t> server_free_;  ///< by stage of the model, ns
  std::vector<std::vector<int>> order_;
};

}  // namespace

bool awaits_order(const Schedule& schedule) {
  return is_served(schedule.shape(), schedule.learning()) &&
         schedule.learning().agreement.order.empty();
}

TaskGraph unordered_graph(Schedule schedule, const Links& links) {
  schedule.learning().agreement.any_order = true;
  return with_transfers(schedule.build(), links);
}

std::vector<std::vector<int>> order_of_arrival(const TaskGraph& unordered, const CostModel& costs) {
  return ArrivalSimulation(unordered, costs).run();
}

}  // namespace unlatch::sim
