#include "tools/checkpointed_run.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "exec/state_file.h"
#include "schedules/error.h"
#include "tools/checkpoint_folder.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* run_key = "run";
constexpr const char* step_key = "step";

/// A file may have been given the name of another.
void require_step(const std::string& file, const exec::StateReader& reader, int step) {
  const auto held = reader.metadata().find(step_key);
  require(held != reader.metadata().end() && held->second == std::to_string(step),
          "'{}' holds another step than its name says", file);
}

/// The newest that can be read, and which one it is.
struct Found {
  int step = 0;
  std::unique_ptr<exec::StateReader> file;
};

Found newest_sound(const CheckpointFolder& folder) {
  const std::vector<int> steps = folder.steps();
  require(!steps.empty(),
          "--resume {}: {}; give the folder that --checkpoint was given, or leave --resume out to "
          "start anew",
          folder.path(),
          fs::is_directory(folder.path()) ? "there is no checkpoint in that folder"
                                          : "there is no such folder");
  std::vector<std::string> damages;
  for (const int step : steps) {
    try {
      Found found{step, std::make_unique<exec::StateReader>(folder.file(step))};
      require_step(folder.file(step), *found.file, step);
      for (const std::string& damage : damages) {
        say(fmt::format("warning: {}; going on from step {} instead", damage, step));
      }
      return found;
    } catch (const Error& error) {
      damages.emplace_back(error.what());
    }
  }
  fail("--resume {}: none of its checkpoints can be read: {}", folder.path(),
       fmt::join(damages, "; "));
}

void require_same_run(const std::string& file, const exec::StateReader& reader,
                      const RunIdentity& identity) {
  const auto run = reader.metadata().find(run_key);
  const auto differences = identity.differences_from(
      RunIdentity::parse(run == reader.metadata().end() ? "" : run->second));
  require(differences.empty(),
          "--resume: '{}' is of another run: {}; repeat the command that began it, with --resume "
          "added",
          file, fmt::join(differences, "; "));
}

/// The batches that are done then.
int restore(const CheckpointFolder& folder, const RunIdentity& identity, const RunState& state) {
  const Found found = newest_sound(folder);
  require_same_run(folder.file(found.step), *found.file, identity);
  state.visit(*found.file);
  found.file->require_end();
  return found.step;
}

void save(CheckpointFolder& folder, int step, const RunIdentity& identity, const RunState& state) {
  exec::StateWriter writer(models::TensorType::f32);
  state.visit(writer);
  folder.save(step, [&](std::ostream& out) {
    writer.write(out, {{run_key, identity.to_text()}, {step_key, std::to_string(step)}});
  });
}

}  // namespace

void RunState::visit(exec::StateVisitor& visitor) const {
  runner.visit_state(visitor);
  journal.visit_state(visitor);
  CurveState none;
  if (curve != nullptr) {
    curve->visit_state(visitor);
  } else {
    none.visit(visitor);
  }
}

CheckpointedRun run_with_checkpoints(const CheckpointRequest& request, const TaskGraph& graph,
                                     const RunState& state, const exec::CpuOptions& options) {
  const RunIdentity& identity = request.identity.value();
  CheckpointSummary summary;
  CheckpointFolder folder(request.save_to.value_or(""));
  if (request.resume_from) {
    summary.resumed_at = restore(CheckpointFolder(*request.resume_from), identity, state);
    say(fmt::format("resumed at step {}", *summary.resumed_at));
    if (request.saves_where_it_resumes()) folder.use(*summary.resumed_at);
  }
  const auto save_now = [&](int step) {
    const auto begin = std::chrono::steady_clock::now();
    save(folder, step, identity, state);
    summary.saving += std::chrono::steady_clock::now() - begin;
    ++summary.saved;
  };
  const exec::Stops stops{.done = summary.resumed_at.value_or(0),
                          .every = request.save_to ? request.every : 0,
                          .at_stop = save_now};
  exec::StoppingRun run = exec::run_with_stops(graph, state.runner, options, stops);
  return {std::move(run), summary};
}

}  // namespace unlatch::tools
