#include "exec/stopping_run.h"

#include <chrono>

#include "exec/executor.h"
#include "schedules/graph_parts.h"

namespace unlatch::exec {
namespace {

using Clock = std::chrono::steady_clock;

/// The tasks of each part of a run, which ends with `last` batches done.
struct Part {
  int last = 0;
  std::vector<TaskId> tasks;
};

std::vector<Part> parts_of(const TaskGraph& graph, const Stops& stops) {
  const int batches = graph.shape().batches;
  const int every = stops.every > 0 ? stops.every : batches;
  std::vector<Part> parts((batches + every - 1) / every);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    parts[p].last = std::min(static_cast<int>(p + 1) * every, batches);
  }
  const std::vector<int> needed = first_batches_that_need(graph);
  for (const TaskId id : graph.ids()) {
    const int batch = needed[id.value];
    if (batch >= stops.done) parts[batch / every].tasks.push_back(id);
  }
  return parts;
}

}  // namespace

StoppingRun run_with_stops(const TaskGraph& graph, TaskRunner& runner, const CpuOptions& options,
                           const Stops& stops) {
  StoppingRun run{.timeline = {LongArray<Span>(graph.size())}};
  const auto begin = Clock::now();
  for (const Part& part : parts_of(graph, stops)) {
    if (part.tasks.empty()) continue;
    const TaskGraph tasks = part_of(graph, part.tasks);
    CpuBackend backend(tasks, runner, options);
    run.workers = backend.workers();
    const auto before = std::chrono::duration_cast<nanoseconds>(Clock::now() - begin);
    const Timeline timeline = exec::run(tasks, backend);
    for (const TaskId id : tasks.ids()) {
      const Span& span = timeline[id];
      run.timeline[part.tasks[id.value]] = {before + span.start, before + span.end};
    }
    if (part.last < graph.shape().batches) stops.at_stop(part.last);
  }
  return run;
}

std::vector<TaskId> tasks_after(const TaskGraph& graph, int done) {
  const std::vector<int> needed = first_batches_that_need(graph);
  std::vector<TaskId> tasks;
  for (const TaskId id : graph.ids()) {
    if (needed[id.value] >= done) tasks.push_back(id);
  }
  return tasks;
}

}  // namespace unlatch::exec
