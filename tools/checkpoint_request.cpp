#include "tools/checkpoint_request.h"

#include <filesystem>

#include "schedules/error.h"
#include "tools/checkpoint_folder.h"
#include "tools/terminal.h"
#include "tools/train_run.h"

namespace unlatch::tools {

bool CheckpointRequest::saves_where_it_resumes() const {
  if (!save_to || !resume_from) return false;
  std::error_code failure;
  return *save_to == *resume_from || std::filesystem::equivalent(*save_to, *resume_from, failure);
}

CheckpointRequest asked_checkpoints(const Arguments& arguments, const TrainingPlan& plan) {
  CheckpointRequest request{.save_to = arguments.text("checkpoint"),
                            .resume_from = arguments.text("resume"),
                            .identity = {},
                            .lock = {}};
  require(request.save_to || !arguments.has("checkpoint-every"),
          "{} says how often to save, but not where; add --checkpoint DIR",
          arguments.place("checkpoint-every"));
  if (request.is_empty()) return request;
  require(!plan.device,
          "{} is for runs on the CPU: the state of a GPU cannot be saved in this version",
          arguments.place(request.save_to ? "checkpoint" : "resume"));
  if (!request.save_to) return request;
  request.every = arguments.whole("checkpoint-every", plan.batches.batches_per_epoch());
  const CheckpointFolder folder(*request.save_to);
  require(
      request.saves_where_it_resumes() || folder.steps().empty(),
      "--checkpoint {}: holds the checkpoints of another run; go on from them with --resume {}, "
      "or give another folder",
      folder.path(), folder.path());
  folder.prepare();
  request.lock = std::make_shared<FolderLock>(folder.path());
  if (request.every >= plan.shape.batches) {
    say(
        fmt::format("note: no checkpoint comes before the end: the run has {} batches, and one is "
                    "saved every {}; see --checkpoint-every",
                    plan.shape.batches, request.every));
  }
  return request;
}

}  // namespace unlatch::tools
