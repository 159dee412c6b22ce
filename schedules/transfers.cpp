#include "schedules/transfers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "schedules/server_links.h"

namespace unlatch {
namespace {

/// Copies a graph task by task and puts a send behind every producer whose data takes a link.
class TransferPass {
 public:
  TransferPass(const TaskGraph& graph, const Links& links)
      : old_(graph), links_(links), parts_(graph.frame()) {}

  TaskGraph run() {
    add_lanes();
    find_barriers();
    find_sends();
    renumber();
    for (const TaskId id : old_.ids()) {
      copy(id);
      if (sends_[id.value]) add_send(id);
    }
    return TaskGraph(std::move(parts_));
  }

 private:
  bool takes_link(Edge edge, const Task& to) const {
    if (!crosses_ranks(old_, edge, to)) return false;
    const bool forward = edge.kind() == EdgeKind::activation;
    const std::vector<bool>& links = forward ? links_.activation : links_.gradient;
    const Stage from = old_.task(edge.from()).stage;
    const std::size_t boundary = forward ? from.value : from.value - 1;
    return boundary < links.size() && links[boundary];
  }

  /// Direct feedback: the last stage sends its output error to all stages at once.
  bool broadcasts(Stage k) const {
    return old_.learning().local_gradients.source == GradientSource::feedback &&
           old_.shape().is_last(k);
  }

  /// The queue of a stage's messages in one direction.
  Lane link(Stage k, Engine direction) const {
    if (links_.one_queue_a_rank) return {old_.rank_of(k), Engine::send, {}};
    return {old_.rank_of(k), direction, k};
  }

  void add_lanes() {
    const Stage last = old_.shape().last_stage();
    std::vector<Lane> lanes(old_.lanes().begin(), old_.lanes().end());
    for (const Stage k : up_to<Stage>(old_.shape().stages)) {
      const auto crosses = [&](Stage to) { return old_.rank_of(k) != old_.rank_of(to); };
      const auto has = [&](const std::vector<bool>& links, Stage boundary) {
        return boundary.value < static_cast<int>(links.size()) && links[boundary.value];
      };
      if (k < last && crosses(k + 1) && has(links_.activation, k)) {
        lanes.push_back(link(k, Engine::link_forward));
      }
      if (k > Stage{0} && (crosses(k - 1) || broadcasts(k)) && has(links_.gradient, k - 1)) {
        lanes.push_back(link(k, Engine::link_backward));
      }
    }
    std::sort(lanes.begin(), lanes.end());
    lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      lane_of_[lanes[lane]] = static_cast<std::uint16_t>(lane);
    }
    parts_.lanes = std::move(lanes);
    link_end_.assign(parts_.lanes.size(), -1);
  }

  /// barrier_after_[lane]: the barriers that wait for something on that lane, in order.
  void find_barriers() {
    for (const TaskId id : old_.ids()) {
      if (old_.task(id).op != Op::barrier) continue;
      for (const Edge edge : old_.edges_into(id)) {
        if (edge.kind() == EdgeKind::barrier) {
          barriers_[old_.task(edge.from()).lane].emplace_back(edge.from(), id);
        }
      }
    }
  }

  void find_sends() {
    sends_.assign(old_.size(), false);
    for (const TaskId id : old_.ids()) {
      for (const Edge edge : old_.edges_into(id)) {
        if (takes_link(edge, old_.task(id))) sends_[edge.from().value] = true;
      }
    }
  }

  void renumber() {
    int next = 0;
    for (const TaskId id : old_.ids()) {
      number_.push_back(next++);
      next += sends_[id.value] ? 1 : 0;
    }
    parts_.tasks.reserve(next);
    parts_.first_edge.reserve(next + 1);
    parts_.edges.reserve(old_.edges().size() + next);
  }

  void copy(TaskId id) {
    Task task = old_.task(id);
    for (const Edge edge : old_.edges_into(id)) {
      const int from = number_[edge.from().value] + (takes_link(edge, task) ? 1 : 0);
      parts_.edges.emplace_back(TaskId{from}, edge.kind());
    }
    if (task.op == Op::barrier) {
      for (const int send : messages_before_[id.value]) {
        parts_.edges.emplace_back(TaskId{send}, EdgeKind::barrier);
      }
      messages_before_.erase(id.value);
    }
    task.lane = lane_of_.at(old_.lane(task));
    finish(task);
  }

  void add_send(TaskId producer) {
    const Task& from = old_.task(producer);
    const bool forward = (from.op == Op::forward || from.op == Op::push_forward) &&
                         !old_.shape().is_last(from.stage);
    Task task = from;
    task.op = forward ? Op::send_forward : Op::send_backward;
    task.version = 0;
    task.flags = 0;
    task.lane =
        lane_of_.at(link(from.stage, forward ? Engine::link_forward : Engine::link_backward));
    const int id = static_cast<int>(parts_.tasks.size());
    int& link_end = link_end_[task.lane];
    if (link_end >= 0) parts_.edges.emplace_back(TaskId{link_end}, EdgeKind::order);
    link_end = id;
    parts_.edges.emplace_back(TaskId{number_[producer.value]}, EdgeKind::local);
    finish(task);
    if (const auto barrier = next_barrier(from.lane, producer)) {
      messages_before_[barrier->value].push_back(id);
    }
  }

  /// The first barrier that waits for this task or a later one of its lane.
  std::optional<TaskId> next_barrier(int lane, TaskId task) const {
    const auto found = barriers_.find(lane);
    if (found == barriers_.end()) return std::nullopt;
    const auto next =
        std::lower_bound(found->second.begin(), found->second.end(), std::pair(task, TaskId{0}));
    if (next == found->second.end()) return std::nullopt;
    return next->second;
  }

  void finish(const Task& task) {
    parts_.tasks.push_back(task);
    parts_.first_edge.push_back(static_cast<std::uint32_t>(parts_.edges.size()));
  }

  const TaskGraph& old_;
  const Links& links_;
  TaskGraph::Parts parts_;
  std::map<Lane, std::uint16_t> lane_of_;
  std::map<int, std::vector<std::pair<TaskId, TaskId>>> barriers_;  ///< lane -> (task, barrier)
  std::map<int, std::vector<int>> messages_before_;  ///< old barrier -> new send tasks
  std::vector<bool> sends_;                          ///< by old task: its output takes a link
  std::vector<int> number_;                          ///< old task -> new number
  std::vector<int> link_end_;                        ///< newest send of each lane
};

}  // namespace

TaskGraph with_transfers(const TaskGraph& graph, const Links& links) {
  return with_server_links(TransferPass(graph, links).run(), links);
}

}  // namespace unlatch
