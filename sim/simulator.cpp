#include "sim/simulator.h"

#include <algorithm>
#include <cmath>

#include "schedules/error.h"
#include "sim/event_simulator.h"
#include "sim/pauses.h"
#include "sim/shared_workers.h"
#include "sim/task_span.h"

namespace unlatch::sim {

namespace {

/// `duration` is a type of its own so that a table is read inline.
template <class Duration>
Timeline run_with(const TaskGraph& graph, const CostModel& costs, const Duration& duration) {
  Timeline timeline;
  timeline.spans.resize(graph.size());
  Span* const spans = timeline.spans.data();
  std::int64_t overflows = 0;
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Task& task = graph.task(TaskId{id});
    spans[id] =
        span_of(task, graph.edges_into(TaskId{id}), spans, duration(task), costs, overflows);
  }
  require(overflows == 0, "{}: the run would last longer than 292 years; give shorter costs",
          graph.schedule());
  return timeline;
}

Timeline run_with(const TaskGraph& graph, const CostModel& costs, const Pauses& pauses) {
  LaneClocks clocks(pauses);
  Timeline timeline;
  timeline.spans.resize(graph.size());
  Span* const spans = timeline.spans.data();
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Ready ready = ready_of(graph.edges_into(TaskId{id}), spans);
    const Task& task = graph.task(TaskId{id});
    const nanoseconds at(ready.at), length = costs.duration(task);
    spans[id] = ready.beside < 0 ? clocks.run(task, at, length)
                                 : clocks.run_beside(task, at, length, spans[ready.beside],
                                                     costs.overlap(task.stage));
  }
  return timeline;
}

}  // namespace

nanoseconds length_beside(nanoseconds forward, nanoseconds recompute, double overlap) {
  const auto [shorter, longer] = std::minmax(forward, recompute);
  return longer + nanoseconds(std::llround((1.0 - overlap) * static_cast<double>(shorter.count())));
}

Span recompute_beside(nanoseconds ready, nanoseconds recompute, const Span& forward,
                      double overlap) {
  const nanoseconds both = length_beside(forward.length(), recompute, overlap);
  const nanoseconds end = std::max(forward.start + both, ready + recompute);
  return {end - recompute, end};
}

Timeline run(const TaskGraph& graph, const CostModel& costs) {
  if (const Traffic* traffic = costs.traffic()) return run(graph, costs, *traffic);
  const Pauses* pauses = costs.pauses();
  const bool shares = shares_workers(graph, costs);
  require(!shares || pauses == nullptr,
          "pauses of ranks that share {} worker threads are not simulated; give --threads, one for "
          "every rank, or leave the pauses out",
          costs.workers());
  if (pauses != nullptr) return run_with(graph, costs, *pauses);
  if (shares) return run_on_workers(graph, costs);
  if (const CostTable* table = costs.table()) {
    return run_with(graph, costs,
                    [table](const Task& task) { return table->at(task.op, task.stage); });
  }
  return run_with(graph, costs, [&costs](const Task& task) { return costs.duration(task); });
}

}  // namespace unlatch::sim
