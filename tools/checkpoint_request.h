// --checkpoint, --checkpoint-every and --resume: what they ask for, and what became of it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tools/folder_lock.h"
#include "tools/run_identity.h"

namespace unlatch::tools {

struct CheckpointRequest {
  std::optional<std::string> save_to;      ///< a folder
  int every = 0;                           ///< batches
  std::optional<std::string> resume_from;  ///< a folder
  std::optional<RunIdentity> identity;     ///< of the run; there before it starts
  std::shared_ptr<const FolderLock> lock;  ///< of the folder to save to

  bool is_empty() const { return !save_to && !resume_from; }
  /// Both are one folder.
  bool saves_where_it_resumes() const;
};

/// Makes the folder to save to. Throws Error where it holds checkpoints that would be lost, and
/// where the run cannot be saved.
CheckpointRequest asked_checkpoints(const Arguments& arguments, const TrainingPlan& plan);

/// For the report of a run.
struct CheckpointSummary {
  std::optional<int> resumed_at;  ///< batches done before
  int saved = 0;
  std::chrono::nanoseconds saving{0};  ///< all of them together, while nothing else ran
};

}  // namespace unlatch::tools
