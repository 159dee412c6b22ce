#include "sim/batch_time.h"

#include <algorithm>

namespace unlatch::sim {
namespace {

double ns(nanoseconds t) { return static_cast<double>(t.count()); }

/// Work of one rank in the whole run.
struct Work {
  double compute = 0, update = 0;
};

Work work_of(const TaskGraph& graph, const Timeline& timeline, Rank rank) {
  Work work;
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (!is_compute(task.op) || graph.rank(task) != rank || task.op == Op::recompute) continue;
    (task.op == Op::update ? work.update : work.compute) += ns(timeline[id].length());
  }
  return work;
}

}  // namespace

std::array<BatchTime::Part, 6> BatchTime::parts() const {
  return {{{"compute", compute},
           {"recompute", recompute},
           {"updates", update},
           {"transfers", transfer},
           {"all-reduces and barriers", joining},
           {"bubble", bubble}}};
}

BatchTime batch_time(const TaskGraph& graph, const Timeline& timeline, const Metrics& metrics,
                     double period_ns) {
  const double batches = graph.shape().batches;
  const RankMetrics& rank = metrics.ranks[static_cast<std::size_t>(metrics.bottleneck.value)];
  const Work work = work_of(graph, timeline, metrics.bottleneck);
  BatchTime time{.compute = work.compute / batches, .update = work.update / batches};
  const double busy = ns(rank.busy) / batches;
  time.recompute = std::max(0.0, busy - time.compute - time.update);
  const double waiting = std::max(0.0, period_ns - busy);
  const IdleCauses& idle = rank.idle_by_cause;
  const double all = ns(idle.total());
  if (all > 0) {
    time.transfer = waiting * ns(idle.transfer) / all;
    time.joining = waiting * ns(idle.update_lock) / all;
  }
  time.bubble = waiting - time.transfer - time.joining;
  return time;
}

std::vector<BatchTime::Part> growth(const BatchTime& faster, const BatchTime& slower) {
  std::vector<BatchTime::Part> grown;
  const auto before = faster.parts(), after = slower.parts();
  double period = 0;
  for (const BatchTime::Part& part : after) period += part.ns;
  for (std::size_t p = 0; p < after.size(); ++p) {
    const double more = after[p].ns - before[p].ns;
    constexpr double seen = 1e-3;
    if (more > seen * period) grown.push_back({after[p].name, more});
  }
  std::ranges::stable_sort(grown, [](const auto& a, const auto& b) { return a.ns > b.ns; });
  return grown;
}

}  // namespace unlatch::sim
