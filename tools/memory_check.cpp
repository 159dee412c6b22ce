#include "tools/memory_check.h"

#include <fmt/format.h>

#include "sim/simulator.h"

namespace unlatch::tools {
namespace {

/// The column of the file that holds a task; an update that no CSV file holds has the column of the
/// gradient before it.
int column_of(const Schedule& schedule, const TaskGraph& graph, TaskId id) {
  const Task& task = graph.task(id);
  for (const Program::Item& item : schedule.programs()[graph.rank(task).value].items()) {
    const bool same = item.kind == Program::Item::Kind::task && item.op == task.op &&
                      item.stage == task.stage && item.micro_batch == task.micro_batch;
    if (same) return item.column;
  }
  return -1;
}

}  // namespace

Violation MemoryFault::violation() const {
  Violation result{"memory", {}, excess.rank.value, column, ""};
  const std::string place =
      column < 0 ? "" : fmt::format(" at row {}, column {}", excess.rank.value, column);
  if (column >= 0) result.tasks.push_back(excess.task);
  result.message = fmt::format("{}{}", excess.text(), place);
  return result;
}

std::vector<MemoryFault> memory_faults(const files::ScheduleFile& file, const MemorySizes& sizes,
                                       std::int64_t limit) {
  const Schedule schedule = file.schedule(file.shape().batches);
  const TaskGraph graph = schedule.build();
  const Shape& shape = graph.shape();
  const sim::StageCosts costs(sim::stage_times({}, shape.stages_a_copy()).for_copies(shape.copies));
  const Timeline timeline = sim::run(graph, costs);
  const std::vector<RankMemory> ranks = memory(graph, timeline, sizes.for_copies(shape.copies));
  std::vector<MemoryFault> faults;
  for (const Rank r : up_to<Rank>(graph.ranks())) {
    const auto excess = excess_of(graph, ranks[r.value], r, limit);
    if (!excess) continue;
    const bool by_task = excess->cause.value >= 0;
    faults.push_back({*excess, by_task ? column_of(schedule, graph, excess->cause) : -1});
  }
  return faults;
}

}  // namespace unlatch::tools
