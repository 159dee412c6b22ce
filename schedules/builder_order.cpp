// The builder's last step: topological numbers for the nodes, or the deadlock that forbids them.
#include <algorithm>
#include <utility>

#include "schedules/builder.h"
#include "schedules/error.h"
#include "schedules/graph_algorithms.h"

namespace unlatch {

/// Runs each rank's program as far as it goes; a blocked rank waits on one unnumbered node and is
/// woken when that gets its number. Linear in nodes and edges, without recursion. Stages that wait
/// for nothing from the next one go batch by batch: a device, whose tasks are put in this order,
/// would else keep an output of every batch until the next stage's turn.
bool Builder::number_nodes() {
  const int programs = static_cast<int>(first_node_.size());  // ranks, barriers, AR of each stage
  const Node nodes = static_cast<Node>(tasks_.size());
  std::vector<Node> head(first_node_.begin(), first_node_.end());
  std::vector<Node> end(first_node_.begin() + 1, first_node_.end());
  end.push_back(nodes);
  std::vector<int> next_waiter(programs, -1);
  std::vector<std::int32_t> waiter(nodes, -1);
  std::vector<int> ready;
  for (int p = programs - 1; p >= 0; --p) ready.push_back(p);
  const bool by_batch = gradient_source() == GradientSource::local_head;
  std::vector<int> begun(programs, 0);  // batches
  const auto lags = [&](int batch) {
    return std::ranges::any_of(ready, [&](int q) { return begun[q] < batch; });
  };
  number_.assign(nodes, -1);
  order_.reserve(nodes);
  while (!ready.empty()) {
    const int p = ready.back();
    ready.pop_back();
    for (Node& node = head[p]; node < end[p]; ++node) {
      const Node missing = missing_for(node);
      if (missing != none) {
        next_waiter[p] = std::exchange(waiter[missing], p);
        break;
      }
      const int batch = tasks_[node].micro_batch.value / shape_.micro_batches;
      if (by_batch && batch == begun[p] && lags(batch)) {
        ready.insert(ready.begin(), p);
        break;
      }
      begun[p] = batch + 1;
      number_[node] = static_cast<std::int32_t>(order_.size());
      order_.push_back(node);
      for (int w = waiter[node]; w >= 0; w = next_waiter[w]) ready.push_back(w);
    }
  }
  return static_cast<Node>(order_.size()) == nodes;
}

Builder::Node Builder::missing_for(Node node) const {
  for (std::uint32_t e = first_edge_[node]; e < first_edge_[node + 1]; ++e) {
    if (number_[edges_[e].from] < 0) return edges_[e].from;
  }
  return none;
}

Violation Builder::deadlock() const {
  const auto predecessors = [this](int node, const std::function<void(int)>& visit) {
    if (number_[node] >= 0) return;  // what has run takes part in no cycle
    for (std::uint32_t e = first_edge_[node]; e < first_edge_[node + 1]; ++e) {
      if (number_[edges_[e].from] < 0) visit(edges_[e].from);
    }
  };
  const std::vector<int> cycle = shortest_cycle(static_cast<int>(tasks_.size()), predecessors);
  Violation violation{"deadlock", {}, -1, -1, ""};
  std::vector<std::string> places;
  for (const int node : cycle) {
    violation.tasks.push_back(label(tasks_[node]));
    places.push_back(fmt::format("rank {} {}", rank_of(node).value, violation.tasks.back()));
  }
  if (!cycle.empty()) {
    violation.row = rank_of(cycle.front()).value;
    violation.column = columns_[cycle.front()];
  }
  violation.message = cycle_text(places);
  return violation;
}

TaskGraph Builder::assemble() const {
  TaskGraph::Parts parts;
  parts.schedule = schedule_.specification();
  parts.learning = schedule_.learning();
  parts.shape = shape_;
  parts.lanes = lanes_;
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    parts.rank_of_stage.push_back(schedule_.rank_of(k));
  }
  parts.tasks.reserve(order_.size());
  parts.first_edge.reserve(order_.size() + 1);
  parts.edges.reserve(edges_.size());
  parts.first_edge.push_back(0);
  for (const Node node : order_) {
    parts.tasks.push_back(tasks_[node]);
    for (std::uint32_t e = first_edge_[node]; e < first_edge_[node + 1]; ++e) {
      parts.edges.emplace_back(TaskId{number_[edges_[e].from]}, edges_[e].kind);
    }
    parts.first_edge.push_back(static_cast<std::uint32_t>(parts.edges.size()));
  }
  return TaskGraph(std::move(parts));
}

}  // namespace unlatch
