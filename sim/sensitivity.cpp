#include "sim/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "schedules/error.h"
#include "sim/monte_carlo.h"
#include "sim/simulator.h"

namespace unlatch::sim {
namespace {

constexpr TaskId nobody{-1};

/// What each part has on a critical path.
class PathTimes {
 public:
  PathTimes(const TaskGraph& graph, const CostModel& costs, const Timeline& timeline)
      : graph_(graph),
        costs_(costs),
        timeline_(timeline),
        ns_(static_cast<std::size_t>(CostTable::ops) * graph.shape().stages, 0.0),
        tasks_(ns_.size(), 0) {
    for (TaskId id = last_task(); id != nobody;) id = count(id);
  }

  double ns(Part part) const { return ns_[place(part)]; }
  int tasks(Part part) const { return tasks_[place(part)]; }

 private:
  std::size_t place(Part part) const {
    return static_cast<std::size_t>(part.op) * graph_.shape().stages + part.stage.value;
  }

  TaskId last_task() const {
    TaskId last = nobody;
    for (const TaskId id : graph_.ids()) {
      if (last == nobody || timeline_[id].end >= timeline_[last].end) last = id;
    }
    return last;
  }

  void add(const Task& task, double weight) {
    const Part part{task.op, task.stage};
    const nanoseconds length = costs_.duration(task);
    if (length == nanoseconds{0} || weight == 0) return;
    ns_[place(part)] += weight * static_cast<double>(length.count());
    ++tasks_[place(part)];
  }

  /// Counts a task of the path and says which one is before it.
  TaskId count(TaskId id) {
    const Task& task = graph_.task(id);
    for (const Edge edge : graph_.edges_into(id)) {
      if (edge.kind() == EdgeKind::beside) return count_beside(id, edge.from());
    }
    add(task, 1);
    return waited_for(id);
  }

  /// R waits for its inputs, or shares the time from the start of F until both are done, of which
  /// the shorter has the part 1 - W (see length_beside).
  TaskId count_beside(TaskId id, TaskId beside) {
    const Task& r = graph_.task(id);
    const Task& f = graph_.task(beside);
    const nanoseconds recompute = costs_.duration(r), forward = costs_.duration(f);
    const double overlap = costs_.overlap(r.stage);
    const nanoseconds shared = timeline_[beside].start + length_beside(forward, recompute, overlap);
    const TaskId input = waited_for(id);
    if (input != nobody && timeline_[input].end + recompute > shared) {
      add(r, 1);
      return input;
    }
    add(f, forward >= recompute ? 1 : 1 - overlap);
    add(r, forward >= recompute ? 1 - overlap : 1);
    return waited_for(beside);
  }

  /// The one whose end came last; ties: the same lane, then the order of the graph.
  TaskId waited_for(TaskId id) const {
    TaskId from = nobody;
    for (const Edge edge : graph_.edges_into(id)) {
      if (edge.kind() == EdgeKind::beside) continue;
      if (from == nobody || timeline_[edge.from()].end > timeline_[from].end) from = edge.from();
    }
    return from;
  }

  const TaskGraph& graph_;
  const CostModel& costs_;
  const Timeline& timeline_;
  std::vector<double> ns_;  ///< by op and stage
  std::vector<int> tasks_;
};

/// Costs in which one part takes another share of its time.
class ScaledCosts final : public CostModel {
 public:
  ScaledCosts(const CostModel& costs, Part part, double share)
      : costs_(costs), part_(part), share_(share) {
    if (const CostTable* table = costs.table()) {
      table_ = *table;
      table_->set(part.op, part.stage, scaled(table->at(part.op, part.stage)));
    }
  }
  nanoseconds duration(const Task& task) const override {
    const nanoseconds fixed = costs_.duration(task);
    return Part{task.op, task.stage} == part_ ? scaled(fixed) : fixed;
  }
  double overlap(Stage k) const override { return costs_.overlap(k); }
  const CostTable* table() const override { return table_ ? &*table_ : nullptr; }
  const Pauses* pauses() const override { return costs_.pauses(); }

 private:
  nanoseconds scaled(nanoseconds t) const {
    return nanoseconds(std::llround(share_ * static_cast<double>(t.count())));
  }
  const CostModel& costs_;
  Part part_;
  double share_;
  std::optional<CostTable> table_;
};

/// Those that take time, by stage, then kind.
std::vector<Part> parts_of(const TaskGraph& graph, const CostModel& costs) {
  std::vector<bool> found(static_cast<std::size_t>(CostTable::ops) * graph.shape().stages, false);
  std::vector<Part> parts;
  for (const Task& task : graph.tasks()) {
    const auto place = static_cast<std::size_t>(task.op) * graph.shape().stages + task.stage.value;
    if (found[place] || costs.duration(task) == nanoseconds{0}) continue;
    found[place] = true;
    parts.push_back({task.op, task.stage});
  }
  std::ranges::sort(parts, {}, [](const Part& part) { return std::tuple{part.stage, part.op}; });
  return parts;
}

/// The part whose time on the path has grown most.
Part most_grown(const std::vector<Part>& parts, const PathTimes& before, const PathTimes& after) {
  return *std::ranges::max_element(
      parts, {}, [&](const Part& part) { return after.ns(part) - before.ns(part); });
}

}  // namespace

std::vector<Sensitivity> sensitivities(const TaskGraph& graph, const CostModel& costs,
                                       const Timeline& timeline, double faster) {
  require(costs.traffic() == nullptr,
          "{}: messages that share links have no time of their own, so nothing says what a faster "
          "link would gain; leave --contention fair out",
          graph.schedule());
  const PathTimes path(graph, costs, timeline);
  const std::vector<Part> parts = parts_of(graph, costs);
  const nanoseconds before = makespan(timeline);
  std::vector<Sensitivity> all(parts.size());
  times_of_runs(0, static_cast<int>(parts.size()), [&](int i) {
    Sensitivity& one = all[static_cast<std::size_t>(i)];
    one.part = parts[static_cast<std::size_t>(i)];
    one.tasks = path.tasks(one.part);
    one.on_path = nanoseconds(std::llround(path.ns(one.part)));
    one.predicted = nanoseconds(std::llround(faster * path.ns(one.part)));
    if (one.tasks == 0) return nanoseconds{0};
    const ScaledCosts less(costs, one.part, 1 - faster);
    const Timeline again = run(graph, less);
    one.gain = before - makespan(again);
    // Each task is rounded to a nanosecond.
    const bool differs = std::abs((one.predicted - one.gain).count()) > one.tasks;
    if (differs) one.moved = most_grown(parts, path, PathTimes(graph, less, again));
    return one.gain;
  });
  std::ranges::stable_sort(all, std::greater<>{}, [](const Sensitivity& one) {
    return std::tuple{one.gain, one.predicted};
  });
  return all;
}

}  // namespace unlatch::sim
