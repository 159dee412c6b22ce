#include "files/blocking_sends.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <utility>

#include "files/task_index.h"
#include "schedules/error.h"
#include "schedules/graph_algorithms.h"

namespace unlatch::files {
namespace {

using Group = std::span<const Action>;

std::optional<ActionKind> kind_of(Op op) {
  switch (op) {
    case Op::forward:
      return ActionKind::forward;
    case Op::backward:
      return ActionKind::backward;
    case Op::backward_input:
      return ActionKind::backward_input;
    case Op::backward_weight:
      return ActionKind::backward_weight;
    case Op::send_forward:
      return ActionKind::send_forward;
    case Op::send_backward:
      return ActionKind::send_backward;
    default:
      return std::nullopt;
  }
}

/// Messages of a row from `first` on that start together, or one other action.
Group group_at(const ActionRow& row, std::size_t first, Sends sends) {
  std::size_t end = first + 1;
  while (sends == Sends::grouped && is_message(row[first].kind) && end < row.size() &&
         is_message(row[end].kind)) {
    ++end;
  }
  return {row.data() + first, end - first};
}

/// Adds what ranks wait for, then numbers the tasks anew.
class BlockingPass {
 public:
  BlockingPass(const TaskGraph& graph, const ActionTable& table, Sends sends)
      : old_(graph),
        table_(table),
        sends_(sends),
        task_of_(graph.shape().stages, graph.shape().all_micro_batches(), -1),
        waits_elsewhere_(graph.shape().stages, graph.shape().all_micro_batches(), false),
        place_(graph.size(), 0),
        edges_(graph.size()),
        newest_on_link_(graph.lanes().size(), -1),
        compute_(graph.ranks()) {
    const auto lanes = tasks_by_lane(graph);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (std::size_t j = 0; j < lanes[lane].size(); ++j) place_[lanes[lane][j].value] = j;
      const Lane& which = graph.lanes()[lane];
      if (which.engine == Engine::compute) compute_[which.rank.value] = lanes[lane];
    }
    for (const TaskId id : graph.ids()) {
      const Task& task = graph.task(id);
      if (const auto kind = kind_of(task.op)) {
        task_of_[{.stage = task.stage, .micro_batch = task.micro_batch, .kind = *kind}] = id.value;
      }
      for (const Edge edge : graph.edges_into(id)) {
        // A link takes messages in the order of the row, which may be another.
        if (!is_send(task.op) || edge.kind() != EdgeKind::order) edges_[id.value].push_back(edge);
      }
    }
    for (const ActionRow& row : table.rows) {
      for (const Action& action : row) {
        if (is_send_wait(action.kind)) waits_elsewhere_[awaited_send(action)] = true;
      }
    }
  }

  TaskGraph run() {
    for (std::size_t r = 0; r < table_.rows.size(); ++r) walk(static_cast<int>(r));
    return renumbered();
  }

 private:
  int task_at(const Action& action) const {
    const int task = task_of_.at(action);
    require(
        task >= 0,
        "{}: --sends {}: the run ends before {}, for which another rank may wait; run it to its "
        "end (--drain yes)",
        old_.schedule(), name(sends_), label(action));
    return task;
  }

  /// How far a rank has come: tasks that must have ended, and the next of its compute lane.
  struct Progress {
    std::vector<int> behind;
    std::size_t next = 0;
  };

  void walk(int rank) {
    const ActionRow& row = table_.rows[rank];
    Progress at;
    for (std::size_t j = 0; j < row.size();) {
      const Group group = group_at(row, j, sends_);
      const Action& first = group.front();
      if (is_compute(first.kind)) {
        compute(task_at(first), rank, at);
      } else if (is_message(first.kind)) {
        std::vector<int> held = send(group, at);
        if (std::ranges::any_of(group, is_receive)) {
          run_unlisted(row, j + group.size(), rank, held, at);
          receive(group, held, at);
        }
        if (!held.empty()) at.behind = std::move(held);
      } else if (is_send_wait(first.kind)) {
        at.behind.push_back(task_at(awaited_send(first)));
      }
      j += group.size();
    }
    const std::vector<TaskId>& lane = compute_[rank];
    if (at.next < lane.size()) hold_up(lane[at.next].value, at);
  }

  /// Its lane runs whatever stands before it, and hands on behind it.
  void compute(int task, int rank, Progress& at) {
    const std::vector<TaskId>& lane = compute_[rank];
    hold_up(lane[at.next].value, at);
    at.next = place_[task] + 1;
    while (at.next < lane.size() && hands_on(old_.task(lane[at.next]).op)) ++at.next;
    at.behind = {task};
  }

  static bool hands_on(Op op) { return op == Op::push_forward || op == Op::push_backward; }

  /// Returns the messages that hold the rank up.
  std::vector<int> send(Group group, const Progress& at) {
    std::vector<int> held;
    for (const Action& action : group) {
      if (!is_send(action.kind)) continue;
      const int message = task_at(action);
      hold_up(message, at);
      int& before = newest_on_link_[old_.task(TaskId{message}).lane];
      if (before >= 0) edges_[message].emplace(edges_[message].begin(), TaskId{before}, order);
      before = message;
      if (!waits_elsewhere_.at(action)) held.push_back(message);
    }
    return held;
  }

  void receive(Group group, std::vector<int>& held, const Progress& at) {
    for (const Action& action : group) {
      if (!is_receive(action)) continue;
      const int message = task_at(partner(action));
      hold_up(message, at);
      held.push_back(message);
    }
  }

  static bool is_receive(const Action& action) {
    return is_message(action.kind) && !is_send(action.kind);
  }

  /// The updates and recomputations that the lane runs before the row's next work, `rest` or
  /// later, part the receives of a call from its sends.
  void run_unlisted(const ActionRow& row, std::size_t rest, int rank, std::vector<int>& held,
                    Progress& at) {
    while (rest < row.size() && !is_compute(row[rest].kind)) ++rest;
    if (rest == row.size()) return;
    const std::vector<TaskId>& lane = compute_[rank];
    std::size_t stop = place_[task_at(row[rest])];
    while (stop > at.next && is_hidden(old_.task(lane[stop - 1]).op)) --stop;
    if (stop == at.next) return;
    if (!held.empty()) at.behind = std::exchange(held, {});
    hold_up(lane[at.next].value, at);
    at.behind = {lane[stop - 1].value};
    at.next = stop;
  }

  void hold_up(int task, const Progress& at) {
    for (const int from : at.behind) {
      const bool by_their_lane = old_.task(TaskId{from}).lane == old_.task(TaskId{task}).lane;
      if (!by_their_lane) edges_[task].emplace_back(TaskId{from}, EdgeKind::rendezvous);
    }
  }

  /// As near to the old order as the edges let it.
  TaskGraph renumbered() const {
    const int size = old_.size();
    std::vector<int> waits(size), number(size, -1);
    std::vector<std::vector<int>> successors(size);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int task = 0; task < size; ++task) {
      waits[task] = static_cast<int>(edges_[task].size());
      if (waits[task] == 0) ready.push(task);
      for (const Edge edge : edges_[task]) successors[edge.from().value].push_back(task);
    }
    TaskGraph::Parts parts = old_.frame();
    parts.lanes.assign(old_.lanes().begin(), old_.lanes().end());
    while (!ready.empty()) {
      const int task = ready.top();
      ready.pop();
      number[task] = static_cast<int>(parts.tasks.size());
      parts.tasks.push_back(old_.task(TaskId{task}));
      for (const Edge edge : edges_[task]) {
        parts.edges.emplace_back(TaskId{number[edge.from().value]}, edge.kind());
      }
      parts.first_edge.push_back(static_cast<std::uint32_t>(parts.edges.size()));
      for (const int next : successors[task]) {
        if (--waits[next] == 0) ready.push(next);
      }
    }
    if (static_cast<int>(parts.tasks.size()) < size) fail_with_cycle(number);
    return TaskGraph(std::move(parts));
  }

  [[noreturn]] void fail_with_cycle(const std::vector<int>& number) const {
    const std::vector<int> cycle =
        shortest_cycle(old_.size(), [&](int task, const std::function<void(int)>& visit) {
          if (number[task] >= 0) return;
          for (const Edge edge : edges_[task]) visit(edge.from().value);
        });
    std::vector<std::string> places;
    for (const int task : cycle) {
      const Task& of = old_.task(TaskId{task});
      places.push_back(fmt::format("rank {} {}", old_.rank(of).value, label(of)));
    }
    fail("{}: with {} sends, {}", old_.schedule(), name(sends_), cycle_text(places));
  }

  static constexpr EdgeKind order = EdgeKind::order;
  const TaskGraph& old_;
  const ActionTable& table_;
  Sends sends_;
  TaskIndex<std::int32_t> task_of_;
  TaskIndex<std::uint8_t> waits_elsewhere_;   ///< sends that a WAIT of their row waits for
  std::vector<std::size_t> place_;            ///< by task: on its lane
  std::vector<std::vector<Edge>> edges_;      ///< by task: into it
  std::vector<int> newest_on_link_;           ///< by lane
  std::vector<std::vector<TaskId>> compute_;  ///< by rank: its compute lane
};

}  // namespace

TaskGraph with_blocking_sends(const TaskGraph& graph, const ActionTable& table, Sends sends) {
  return BlockingPass(graph, table, sends).run();
}

}  // namespace unlatch::files
