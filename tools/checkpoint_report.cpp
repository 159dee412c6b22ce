#include "tools/checkpoint_report.h"

#include "exec/stopping_run.h"
#include "schedules/graph_parts.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

double ms_per_checkpoint(const CheckpointSummary& summary) {
  return to_ms(summary.saving) / summary.saved;
}

}  // namespace

RunTasks::RunTasks(const TaskGraph& graph, const Timeline& timeline, std::optional<int> resumed_at)
    : batches(graph.shape().batches - resumed_at.value_or(0)),
      whole_(graph),
      whole_timeline_(timeline) {
  if (!resumed_at) return;
  const std::vector<TaskId> tasks = exec::tasks_after(graph, *resumed_at);
  rest_.emplace(part_of(graph, tasks));
  for (const TaskId id : tasks) rest_timeline_.spans.push_back(timeline[id]);
}

Metrics RunTasks::metrics(const std::vector<std::int64_t>& input_bytes) const {
  Metrics metrics = unlatch::metrics(whole_, whole_timeline_, input_bytes);
  if (rest_) metrics.transfers = transfer_totals(*rest_, input_bytes);
  return metrics;
}

void add_checkpoints(Json& json, const CheckpointSummary& summary) {
  if (summary.resumed_at) json["resumed_at_step"] = *summary.resumed_at;
  if (summary.saved == 0) return;
  json["checkpoints"] = {{"saved", summary.saved}, {"mean_ms", ms_per_checkpoint(summary)}};
}

std::string checkpoints_text(const CheckpointSummary& summary) {
  std::string text;
  if (summary.resumed_at) {
    text += fmt::format("resumed at      step {}; times are those of the steps after it\n",
                        *summary.resumed_at);
  }
  if (summary.saved > 0) {
    text += fmt::format("checkpoints     {}, {} ms each\n", summary.saved,
                        format_ms(ms_per_checkpoint(summary)));
  }
  return text;
}

}  // namespace unlatch::tools
