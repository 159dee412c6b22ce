#include "traces/idle.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "traces/wait_cause.h"

namespace unlatch {

namespace {

using Cause = WaitCause;

/// The predecessor that a gap waited for.
struct Wait {
  nanoseconds ready{-1};
  Cause cause = Cause::none;
  TaskId from;
};

struct Gap {
  nanoseconds from{0};
  nanoseconds to{0};
  TaskId ended_by;
};

class IdleReader {
 public:
  IdleReader(const TaskGraph& graph, const Timeline& timeline)
      : graph_(graph), timeline_(timeline), before_on_lane_(graph.size(), none) {
    std::vector<std::int32_t> newest(graph.lanes().size(), none);
    for (const TaskId id : graph.ids()) {
      std::int32_t& last = newest[graph.task(id).lane];
      before_on_lane_[id.value] = last;
      last = id.value;
    }
  }

  void attribute(const Gap& gap, IdleCauses& causes) const {
    const Wait wait = wait_of(gap.ended_by);
    const nanoseconds on_link = time_on_link(wait, gap);
    causes.transfer += on_link;
    idle_of(causes, wait.cause, graph_.task(gap.ended_by).op) += gap.to - gap.from - on_link;
  }

 private:
  static constexpr std::int32_t none = -1;

  /// Looks at the task and at the hidden tasks between it and the compute task before it.
  Wait wait_of(TaskId task) const {
    Wait latest;
    for (std::int32_t id = task.value; id != none; id = before_on_lane_[id]) {
      if (id != task.value && !is_hidden(graph_.task(TaskId{id}).op)) break;
      for (const Edge edge : graph_.edges_into(TaskId{id})) {
        const Cause cause = cause_of(edge.kind());
        if (cause == Cause::none) continue;
        const nanoseconds ready = timeline_[edge.from()].end;
        if (ready > latest.ready || (ready == latest.ready && cause < latest.cause)) {
          latest = {ready, cause, edge.from()};
        }
      }
    }
    return latest;
  }

  /// The part of the gap in which the awaited message was on its link or queued for it.
  nanoseconds time_on_link(const Wait& wait, const Gap& gap) const {
    if (wait.cause == Cause::none) return nanoseconds{0};
    const Op op = graph_.task(wait.from).op;
    if (!is_send(op) && !joins_copies(op)) return nanoseconds{0};
    nanoseconds handed_over{0};
    for (const Edge edge : graph_.edges_into(wait.from)) {
      if (edge.kind() != EdgeKind::order) {
        handed_over = std::max(handed_over, timeline_[edge.from()].end);
      }
    }
    const nanoseconds from = std::max(gap.from, handed_over);
    const nanoseconds to = std::min(gap.to, timeline_[wait.from].end);
    return std::max(nanoseconds{0}, to - from);
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<std::int32_t> before_on_lane_;
};

}  // namespace

std::vector<std::vector<TaskId>> compute_by_rank(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<std::vector<TaskId>> ranks(graph.ranks());
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (is_compute(task.op)) ranks[graph.rank(task).value].push_back(id);
  }
  for (std::vector<TaskId>& tasks : ranks) {
    std::stable_sort(tasks.begin(), tasks.end(),
                     [&](TaskId a, TaskId b) { return timeline[a].start < timeline[b].start; });
  }
  return ranks;
}

std::vector<IdleCauses> idle_by_cause(const TaskGraph& graph, const Timeline& timeline) {
  const IdleReader reader(graph, timeline);
  const nanoseconds last_end = makespan(timeline);
  std::vector<IdleCauses> ranks;
  for (const std::vector<TaskId>& tasks : compute_by_rank(graph, timeline)) {
    IdleCauses& causes = ranks.emplace_back();
    nanoseconds busy_until{0};
    for (std::size_t j = 0; j < tasks.size(); ++j) {
      const Span span = timeline[tasks[j]];
      if (span.start > busy_until) {
        if (j == 0) {
          causes.start += span.start;
        } else {
          reader.attribute({busy_until, span.start, tasks[j]}, causes);
        }
      }
      busy_until = std::max(busy_until, span.end);
    }
    causes.end += last_end - busy_until;
  }
  return ranks;
}

}  // namespace unlatch
