// What a run that was saved or resumed reports: the figures of what was run, and the checkpoints.
#pragma once

#include <optional>
#include <string>

#include "tools/checkpoint_request.h"
#include "tools/json_output.h"
#include "traces/metrics.h"

namespace unlatch::tools {

/// The tasks that a run has run: all, or those after the checkpoint that it went on from.
class RunTasks {
 public:
  /// Both must outlive it. Tasks from before a checkpoint have no length in the timeline.
  RunTasks(const TaskGraph& graph, const Timeline& timeline, std::optional<int> resumed_at);
  RunTasks(const RunTasks&) = delete;
  RunTasks& operator=(const RunTasks&) = delete;

  const TaskGraph& graph() const { return rest_ ? *rest_ : whole_; }
  const Timeline& timeline() const { return rest_ ? rest_timeline_ : whole_timeline_; }
  const int batches;  ///< that they finish
  /// Staleness and updates are those of the whole run.
  Metrics metrics(const std::vector<std::int64_t>& input_bytes) const;

 private:
  const TaskGraph& whole_;
  const Timeline& whole_timeline_;
  std::optional<TaskGraph> rest_;
  Timeline rest_timeline_;
};

/// "resumed_at_step" and "checkpoints", where there is anything to say.
void add_checkpoints(Json& json, const CheckpointSummary& summary);
std::string checkpoints_text(const CheckpointSummary& summary);

}  // namespace unlatch::tools
