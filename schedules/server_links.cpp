#include "schedules/server_links.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace unlatch {
namespace {

/// Copies a graph task by task; PUSH goes in front of what the server does, PULL behind it.
class ServerLinkPass {
 public:
  ServerLinkPass(const TaskGraph& graph, const Links& links)
      : old_(graph), links_(links), parts_(graph.frame()), copies_(graph.shape().stages) {}

  TaskGraph run() {
    add_lanes();
    const bool delayed = agreement().kind == Agreement::Kind::delayed;
    for (const TaskId id : old_.ids()) {
      number_.push_back(delayed ? visit_delayed(id) : visit_served(id));
    }
    return TaskGraph(std::move(parts_));
  }

 private:
  using Edges = std::vector<Edge>;
  /// What is known of one copy of a stage while walking.
  struct Copy {
    std::optional<TaskId> gradient;  ///< its newest
    std::optional<TaskId> last_push, last_pull;
    std::optional<TaskId> not_pulled;  ///< server: the update whose weights it has not pulled
    /// delayed: the PULL of each of the last two batches, by parity.
    std::array<std::optional<TaskId>, 2> pull_of_batch = {};
  };

  const Agreement& agreement() const { return old_.learning().agreement; }
  bool pushes(Stage k) const { return !links_.push.empty() && links_.push[k.value]; }
  bool pulls(Stage k) const { return !links_.pull.empty() && links_.pull[k.value]; }
  Copy& copy(Stage k) { return copies_[k.value]; }

  void add_lanes() {
    parts_.lanes.assign(old_.lanes().begin(), old_.lanes().end());
    for (const Stage k : up_to<Stage>(old_.shape().stages)) {
      if (pushes(k)) parts_.lanes.push_back({old_.rank_of(k), Engine::push, k});
      if (pulls(k)) parts_.lanes.push_back({old_.rank_of(k), Engine::pull, k});
    }
    std::ranges::sort(parts_.lanes);
    for (std::size_t lane = 0; lane < parts_.lanes.size(); ++lane) {
      lane_of_[parts_.lanes[lane]] = static_cast<std::uint16_t>(lane);
    }
  }

  // ---- a server that takes one copy's gradients at a time ----------------------------------

  /// B -> PUSH -> U, and U -> PULL -> the copy's next task, whose bound the PULL waits for.
  TaskId visit_served(TaskId id) {
    const Task& task = old_.task(id);
    Edges edges = renumbered(id);
    if (task.op == Op::barrier || is_send(task.op)) return append(task, edges);
    Copy& mine = copy(task.stage);
    if (mine.not_pulled && pulls(task.stage)) {
      Edges before{{*mine.not_pulled, EdgeKind::all_reduce}};
      std::ranges::copy_if(edges, std::back_inserter(before),
                           [](Edge edge) { return edge.kind() == EdgeKind::version; });
      edges.emplace_back(append_pull(parts_.tasks[mine.not_pulled->value], task.stage, before),
                         EdgeKind::all_reduce);
    }
    mine.not_pulled.reset();
    if (task.op == Op::update && pushes(task.stage) && mine.gradient) {
      edges.emplace_back(append_push(task, task.stage, {{*mine.gradient, EdgeKind::all_reduce}}),
                         EdgeKind::all_reduce);
    }
    const TaskId added = append(task, edges);
    if (task.op == Op::backward || task.op == Op::backward_weight) mine.gradient = added;
    if (task.op == Op::update) mine.not_pulled = added;
    return added;
  }

  // ---- a server that sums the gradients of a batch -----------------------------------------

  /// B -> PUSH -> AR, and AR -> PULL -> the update that takes the server's weights.
  TaskId visit_delayed(TaskId id) {
    const Task& task = old_.task(id);
    Edges edges = renumbered(id);
    if (task.op == Op::all_reduce) {
      for (Edge& edge : edges) {
        if (edge.kind() == EdgeKind::all_reduce) edge = pushed(edge, task, edges.front());
      }
    } else if (task.op == Op::update) {
      for (Edge& edge : edges) {
        if (edge.kind() == EdgeKind::all_reduce) edge = pulled(edge, task.stage);
      }
    }
    const TaskId added = append(task, edges);
    if (task.op == Op::all_reduce) pull_into_copies(added);
    return added;
  }

  /// The edge through a PUSH, for which the copy's buffer must be free.
  Edge pushed(Edge gradient, const Task& all_reduce, Edge before) {
    const Stage k = parts_.tasks[gradient.from().value].stage;
    if (!pushes(k)) return gradient;
    Edges edges{gradient};
    if (before.kind() == EdgeKind::order) edges.emplace_back(before.from(), EdgeKind::all_reduce);
    const auto& last_pull = copy(k).pull_of_batch[(all_reduce.version + 1) % 2];
    if (last_pull) edges.emplace_back(*last_pull, EdgeKind::all_reduce);
    return {append_push(all_reduce, k, edges), EdgeKind::all_reduce};
  }

  Edge pulled(Edge from_server, Stage k) {
    const int batch = parts_.tasks[from_server.from().value].version;
    const auto& pull = copy(k).pull_of_batch[batch % 2];
    return pull ? Edge{*pull, EdgeKind::all_reduce} : from_server;
  }

  void pull_into_copies(TaskId server) {
    const Task all_reduce = parts_.tasks[server.value];
    for (const Stage k : old_.shape().in_all_copies(all_reduce.stage)) {
      auto& pull = copy(k).pull_of_batch[all_reduce.version % 2];
      pull.reset();
      if (!pulls(k) || !agreement().pulls(all_reduce.version)) continue;
      pull = append_pull(all_reduce, k, {{server, EdgeKind::all_reduce}});
    }
  }

  // ---- appending ---------------------------------------------------------------------------

  Edges renumbered(TaskId id) const {
    Edges edges;
    for (const Edge edge : old_.edges_into(id)) {
      edges.emplace_back(number_[edge.from().value], edge.kind());
    }
    return edges;
  }

  TaskId append(Task task, const Edges& edges) {
    const Lane& lane = old_.lanes()[task.lane];
    task.lane = lane_of_.at(lane);
    return append_as_it_is(task, edges);
  }

  TaskId append_push(const Task& update, Stage k, Edges edges) {
    return append_link(Op::push_gradients, Engine::push, update, k, std::move(edges),
                       copy(k).last_push);
  }
  TaskId append_pull(const Task& update, Stage k, Edges edges) {
    return append_link(Op::pull_weights, Engine::pull, update, k, std::move(edges),
                       copy(k).last_pull);
  }
  TaskId append_link(Op op, Engine engine, const Task& update, Stage k, Edges edges,
                     std::optional<TaskId>& last) {
    Task task;
    task.op = op;
    task.stage = k;
    task.micro_batch = update.micro_batch;
    task.version = update.version;
    task.step = update.step;
    task.lane = lane_of_.at({old_.rank_of(k), engine, k});
    if (last) edges.emplace(edges.begin(), *last, EdgeKind::order);
    last = append_as_it_is(task, edges);
    return *last;
  }

  TaskId append_as_it_is(const Task& task, const Edges& edges) {
    const TaskId id{static_cast<std::int32_t>(parts_.tasks.size())};
    parts_.tasks.push_back(task);
    parts_.edges.insert(parts_.edges.end(), edges.begin(), edges.end());
    parts_.first_edge.push_back(static_cast<std::uint32_t>(parts_.edges.size()));
    return id;
  }

  const TaskGraph& old_;
  const Links& links_;
  TaskGraph::Parts parts_;
  std::map<Lane, std::uint16_t> lane_of_;
  std::vector<Copy> copies_;    ///< by stage
  std::vector<TaskId> number_;  ///< old task -> new
};

bool any(const std::vector<bool>& links) { return std::ranges::find(links, true) != links.end(); }

}  // namespace

TaskGraph with_server_links(TaskGraph graph, const Links& links) {
  const bool has_server = graph.shape().copies > 1 && graph.learning().agreement.has_server();
  if (!has_server || !(any(links.push) || any(links.pull))) return graph;
  return ServerLinkPass(graph, links).run();
}

}  // namespace unlatch
