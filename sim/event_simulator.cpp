#include "sim/event_simulator.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <queue>
#include <utility>

#include "schedules/error.h"
#include "sim/fair_share.h"
#include "sim/pauses.h"
#include "sim/simulator.h"

namespace unlatch::sim {
namespace {

using Ns = std::int64_t;

/// What happens at a time; what was planned first comes first among equals.
struct Event {
  enum class Kind : std::uint8_t { end, flow_begins, flow_ends };
  Ns at = 0;
  std::int64_t number = 0;  ///< in the order of planning
  std::int32_t task = -1;
  std::int32_t part = 0;  ///< flow_begins: which of the task's transfers; flow_ends: which flow
  std::int32_t plan = 0;  ///< of a flow's end: a later plan makes this one void
  Kind kind = Kind::end;

  bool operator>(const Event& other) const {
    return std::pair(at, number) > std::pair(other.at, other.number);
  }
};

/// A transfer under way.
struct Flow {
  std::int32_t task = -1;
  double bytes_left = 0;
  double since = 0;  ///< when that was
  double rate = 0;   ///< bytes a nanosecond
  std::int32_t plan = 0;
};

/// Lanes run their tasks in order. A lane whose next task lacks an input waits for that one task;
/// when it is done (or has begun, where that is enough) the lane looks again.
class EventSimulation {
 public:
  EventSimulation(const TaskGraph& graph, const CostModel& costs, const Traffic& traffic)
      : graph_(graph),
        costs_(costs),
        traffic_(traffic),
        shares_(in_bytes_a_ns(traffic.links())),
        lanes_(tasks_by_lane(graph)),
        head_(lanes_.size(), 0),
        next_waiter_(lanes_.size(), -1),
        waiter_(graph.size(), -1),
        state_(graph.size(), State::waiting) {
    timeline_.spans.resize(graph.size());
    if (const Pauses* pauses = costs.pauses()) clocks_.emplace(*pauses);
  }

  Timeline run() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) advance(static_cast<int>(lane));
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      switch (event.kind) {
        case Event::Kind::end:
          finish(event.task);
          break;
        case Event::Kind::flow_begins:
          begin_flow(event.task, event.part);
          break;
        case Event::Kind::flow_ends:
          if (flows_[event.part].plan == event.plan) end_flow(event.part);
          break;
      }
    }
    return std::move(timeline_);
  }

 private:
  enum class State : std::uint8_t { waiting, begun, done };

  static std::vector<double> in_bytes_a_ns(std::vector<double> bytes_a_second) {
    for (double& capacity : bytes_a_second) capacity /= 1e9;
    return bytes_a_second;
  }

  /// Starts the lane's next task if it can, and says whom it waits for else.
  void advance(int lane) {
    if (head_[lane] == lanes_[lane].size()) return;
    const TaskId id = lanes_[lane][head_[lane]];
    std::int32_t beside = -1;
    for (const Edge edge : graph_.edges_into(id)) {
      const std::int32_t from = edge.from().value;
      const bool starts_are_enough = edge.kind() == EdgeKind::beside;
      if (starts_are_enough) {
        beside = from;
        starts_are_awaited_ = true;
      }
      if (state_[from] == State::done || (starts_are_enough && state_[from] == State::begun)) {
        continue;
      }
      next_waiter_[lane] = std::exchange(waiter_[from], lane);
      return;
    }
    ++head_[lane];
    begin(id, beside);
  }

  void begin(TaskId id, std::int32_t beside) {
    const Task& task = graph_.task(id);
    timeline_[id].start = nanoseconds(now_);
    state_[id.value] = State::begun;
    const auto transfers =
        is_compute(task.op) ? std::span<const Transfer>{} : traffic_.transfers(task);
    if (transfers.empty()) {
      begin_work(id, beside);
    } else {
      begin_transfers(id, transfers);
    }
    if (starts_are_awaited_) wake_those_who_wait_for(id);
  }

  void begin_work(TaskId id, std::int32_t beside) {
    Span& span = timeline_[id];
    if (beside < 0) {
      span = span_of(id, span.start);
    } else {
      const Span forward = span_of(TaskId{beside}, timeline_[TaskId{beside}].start);
      span = span_beside(graph_.task(id), forward);
    }
    plan({.at = span.end.count(), .task = id.value});
  }

  /// Of a task that starts then.
  Span span_of(TaskId id, nanoseconds start) {
    const Task& task = graph_.task(id);
    const nanoseconds length = costs_.duration(task);
    if (clocks_) return clocks_->run(task, start, length);
    return {start, nanoseconds(sum(start.count(), length.count()))};
  }

  /// Of an R that could start now; the F beside it may not have ended.
  Span span_beside(const Task& task, const Span& forward) {
    const nanoseconds now(now_), length = costs_.duration(task);
    const double overlap = costs_.overlap(task.stage);
    return clocks_ ? clocks_->run_beside(task, now, length, forward, overlap)
                   : recompute_beside(now, length, forward, overlap);
  }

  void finish(std::int32_t task) {
    const TaskId id{task};
    timeline_[id].end = nanoseconds(now_);
    state_[task] = State::done;
    wake_those_who_wait_for(id);
    advance(graph_.task(id).lane);
  }

  /// Those for whom it is too early come back to the list.
  void wake_those_who_wait_for(TaskId id) {
    int lane = std::exchange(waiter_[id.value], -1);
    while (lane >= 0) {
      const int next = next_waiter_[lane];
      advance(lane);
      lane = next;
    }
  }

  // ---- transfers ----

  void begin_transfers(TaskId id, std::span<const Transfer> transfers) {
    if (parts_left_.empty()) parts_left_.resize(graph_.size(), 0);
    parts_left_[id.value] = static_cast<std::int32_t>(transfers.size());
    for (std::int32_t part = 0; part < std::ssize(transfers); ++part) {
      const Transfer& transfer = transfers[part];
      const bool at_once = transfer.latency.count() == 0 && transfer.bytes > 0;
      if (at_once) {
        begin_flow(id.value, part);
      } else {
        plan({.at = later_by(transfer.latency.count()),
              .task = id.value,
              .part = part,
              .kind = Event::Kind::flow_begins});
      }
    }
  }

  void begin_flow(std::int32_t task, std::int32_t part) {
    const Transfer& transfer = traffic_.transfers(graph_.task(TaskId{task}))[part];
    if (transfer.bytes <= 0) return end_part(task);
    const FairShare::Flow flow = shares_.add(transfer.route);
    if (static_cast<std::size_t>(flow) >= flows_.size()) flows_.resize(flow + 1);
    flows_[flow] = {.task = task,
                    .bytes_left = transfer.bytes,
                    .since = static_cast<double>(now_),
                    .plan = flows_[flow].plan};
    plan_again();
  }

  void end_flow(FairShare::Flow flow) {
    shares_.remove(flow);
    ++flows_[flow].plan;
    plan_again();
    end_part(flows_[flow].task);
  }

  void end_part(std::int32_t task) {
    if (--parts_left_[task] == 0) finish(task);
  }

  /// Those whose rate has changed end at another time.
  void plan_again() {
    const auto now = static_cast<double>(now_);
    for (const FairShare::Flow changed : shares_.changed()) {
      Flow& flow = flows_[changed];
      flow.bytes_left = std::max(0.0, flow.bytes_left - (now - flow.since) * flow.rate);
      flow.since = now;
      flow.rate = shares_.rate(changed);
      const double ns = std::isinf(flow.rate) ? 0 : flow.bytes_left / flow.rate;
      constexpr double most_ns = 4e18;
      require(ns < most_ns, "{}: a transfer of {:g} bytes would last longer than 126 years",
              graph_.schedule(), flow.bytes_left);
      plan({.at = later_by(std::llround(ns)),
            .task = flow.task,
            .part = changed,
            .plan = ++flow.plan,
            .kind = Event::Kind::flow_ends});
    }
  }

  Ns later_by(Ns length) const { return sum(now_, length); }

  Ns sum(Ns start, Ns length) const {
    Ns at = 0;
    require(!__builtin_add_overflow(start, length, &at),
            "{}: the run would last longer than 292 years; give shorter costs", graph_.schedule());
    return at;
  }

  void plan(Event event) {
    event.number = planned_++;
    events_.push(event);
  }

  const TaskGraph& graph_;
  const CostModel& costs_;
  const Traffic& traffic_;
  FairShare shares_;
  Timeline timeline_;
  std::vector<std::vector<TaskId>> lanes_;
  std::vector<std::size_t> head_;         ///< by lane: place of its next task
  std::vector<int> next_waiter_;          ///< by lane: who else waits for the same task
  std::vector<int> waiter_;               ///< by task: a lane that waits for it
  std::vector<State> state_;              ///< by task
  std::vector<std::int32_t> parts_left_;  ///< by task, once there are flows: transfers under way
  std::vector<Flow> flows_;
  std::optional<LaneClocks> clocks_;  ///< where lanes stand still at times
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  bool starts_are_awaited_ = false;  ///< by some R beside an F
  std::int64_t planned_ = 0;
  Ns now_ = 0;
};

}  // namespace

Timeline run(const TaskGraph& graph, const CostModel& costs, const Traffic& traffic) {
  return EventSimulation(graph, costs, traffic).run();
}

}  // namespace unlatch::sim
