#include "sim/shared_workers.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>

#include "schedules/error.h"
#include "sim/simulator.h"

namespace unlatch::sim {
namespace {

using Ns = std::int64_t;
constexpr Ns never = std::numeric_limits<Ns>::max();
/// How long a worker finds nothing of its own to do before it helps at another's ranks.
constexpr Ns patience = 20'000;

bool computes(const Lane& lane) {
  return lane.engine == Engine::compute || lane.engine == Engine::recompute;
}

class WorkerSimulation {
 public:
  WorkerSimulation(const TaskGraph& graph, const CostModel& costs)
      : graph_(graph),
        costs_(costs),
        lanes_(tasks_by_lane(graph)),
        head_(lanes_.size(), 0),
        free_at_(lanes_.size(), 0),
        ranks_(graph.ranks()),
        workers_(costs.workers()) {
    timeline_.spans.resize(graph.size(), Span{nanoseconds(never), nanoseconds(never)});
    for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) {
      const Lane& facts = graph.lanes()[lane];
      if (computes(facts) || facts.engine == Engine::control) {
        ranks_[facts.rank.value].lanes.push_back(lane);
      } else {
        free_lanes_.push_back(lane);
      }
    }
  }

  Timeline run() {
    while (done_ < graph_.size()) {
      while (step()) {
      }
      if (done_ < graph_.size()) now_ = next_event();
    }
    return std::move(timeline_);
  }

 private:
  /// What a worker serves of one rank: F, then R, then barriers.
  struct RankLanes {
    std::vector<int> lanes;
    bool held = false;
  };
  struct Worker {
    Ns free_at = 0;  ///< end of the task that it runs
    int rank = -1;   ///< that it holds
    int lane = 0;    ///< the lane of the rank that it is at
    int last = -1;   ///< own rank served last, whose next one's turn it is; -1 after a pause
    Ns idle_since = 0;
    bool helps = false;  ///< has helped since it last found nothing at all
  };

  /// Whatever can begin now; false when nothing can.
  bool step() {
    bool any = false;
    for (const int lane : free_lanes_) {
      if (free_at_[lane] > now_ || !can_go(lane)) continue;
      free_at_[lane] = begin(lane);
      any = true;
    }
    for (int w = 0; w < static_cast<int>(workers_.size()); ++w) any = step(w) || any;
    return any;
  }

  bool step(int w) {
    Worker& worker = workers_[w];
    if (worker.free_at > now_) return false;
    const std::optional<int> lane = next_lane(w);
    if (!lane) return false;
    worker.free_at = begin(*lane);
    worker.idle_since = worker.free_at;
    return true;
  }

  /// Where a worker goes on: on the rank that it holds, else on one of its own, else on any.
  std::optional<int> next_lane(int w) {
    Worker& worker = workers_[w];
    if (worker.rank >= 0) {
      const std::vector<int>& lanes = ranks_[worker.rank].lanes;
      for (; worker.lane < static_cast<int>(lanes.size()); ++worker.lane) {
        if (can_go(lanes[worker.lane])) return lanes[worker.lane];
      }
      ranks_[worker.rank].held = false;
      worker.rank = -1;
    }
    const int count = static_cast<int>(workers_.size());
    const int own = (graph_.ranks() - w + count - 1) / count;
    const int turn = worker.last < 0 ? 0 : (worker.last - w) / count + 1;
    for (int i = 0; i < own; ++i) {
      const int rank = w + (turn + i) % own * count;
      if (!take(worker, rank)) continue;
      worker.last = rank;
      return ranks_[rank].lanes[worker.lane];
    }
    worker.last = -1;
    worker.helps = worker.helps || now_ - worker.idle_since >= patience;
    for (int rank = 0; worker.helps && rank < graph_.ranks(); ++rank) {
      if (take(worker, rank)) return ranks_[rank].lanes[worker.lane];
    }
    worker.helps = false;
    return std::nullopt;
  }

  /// Holds a rank that nobody holds, at its first lane that can go.
  bool take(Worker& worker, int rank) {
    if (ranks_[rank].held) return false;
    const std::vector<int>& lanes = ranks_[rank].lanes;
    const auto found = std::ranges::find_if(lanes, [this](int lane) { return can_go(lane); });
    if (found == lanes.end()) return false;
    ranks_[rank].held = true;
    worker.rank = rank;
    worker.lane = static_cast<int>(found - lanes.begin());
    return true;
  }

  bool can_go(int lane) const {
    if (head_[lane] == lanes_[lane].size()) return false;
    return std::ranges::all_of(
        graph_.edges_into(lanes_[lane][head_[lane]]), [this](const Edge edge) {
          const Span& from = timeline_[edge.from()];
          return (edge.kind() == EdgeKind::beside ? from.start : from.end).count() <= now_;
        });
  }

  /// Starts the lane's next task; returns when it ends.
  Ns begin(int lane) {
    const TaskId id = lanes_[lane][head_[lane]++];
    Ns end = 0;
    require(!__builtin_add_overflow(now_, length_of(id).count(), &end),
            "{}: the run would last longer than 292 years; give shorter costs", graph_.schedule());
    timeline_[id] = {nanoseconds(now_), nanoseconds(end)};
    ++done_;
    return end;
  }

  nanoseconds length_of(TaskId id) const {
    const Task& task = graph_.task(id);
    const nanoseconds length = costs_.duration(task);
    for (const Edge edge : graph_.edges_into(id)) {
      if (edge.kind() != EdgeKind::beside) continue;
      const nanoseconds forward = timeline_[edge.from()].length();
      return length_beside(forward, length, costs_.overlap(task.stage)) - forward;
    }
    return length;
  }

  /// When a task ends, or a worker that waits becomes one that helps.
  Ns next_event() const {
    Ns next = never;
    const auto at = [&](Ns time) {
      if (time > now_) next = std::min(next, time);
    };
    for (const int lane : free_lanes_) at(free_at_[lane]);
    for (const Worker& worker : workers_) {
      at(worker.free_at);
      at(worker.idle_since + patience);
    }
    assert(next != never);  // a task is under way, or a worker may soon help
    return next;
  }

  const TaskGraph& graph_;
  const CostModel& costs_;
  Timeline timeline_;
  std::vector<std::vector<TaskId>> lanes_;
  std::vector<std::size_t> head_;  ///< by lane: place of its next task
  std::vector<Ns> free_at_;        ///< by lane, of those that need no worker
  std::vector<int> free_lanes_;
  std::vector<RankLanes> ranks_;
  std::vector<Worker> workers_;
  int done_ = 0;
  Ns now_ = 0;
};

}  // namespace

bool shares_workers(const TaskGraph& graph, const CostModel& costs) {
  return costs.workers() > 0 && costs.workers() < std::ranges::count_if(graph.lanes(), computes);
}

Timeline run_on_workers(const TaskGraph& graph, const CostModel& costs) {
  return WorkerSimulation(graph, costs).run();
}

}  // namespace unlatch::sim
