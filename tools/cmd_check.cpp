// unlatch check: every rule that a schedule file breaks, before anything runs.
#include "files/lowering.h"
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/schedule_input.h"
#include "tools/terminal.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

using files::ScheduleFile;
using files::Sends;

Json place_json(int place) { return place < 0 ? Json(nullptr) : Json(place); }

Json violation_json(const Violation& violation) {
  return {{"rule", violation.rule},
          {"tasks", violation.tasks},
          {"row", place_json(violation.row)},
          {"column", place_json(violation.column)},
          {"message", violation.message}};
}

/// Steps of a CSV file where every action and message takes one; nothing where that is not defined.
std::optional<int> steps_of(const ScheduleFile& file) {
  if (file.form() != ScheduleFile::Form::csv) return std::nullopt;
  const files::ActionTable bare = files::without_sharding(file.table());
  for (const files::ActionRow& row : bare.rows) {
    for (const files::Action& action : row) {
      if (action.overlap != files::Overlap::none) return std::nullopt;
    }
  }
  const bool explicit_messages = files::has_messages(bare);
  return files::unit_steps(explicit_messages ? bare : files::with_messages(bare), file.shape());
}

Json file_json(const ScheduleFile& file) {
  const bool csv = file.form() == ScheduleFile::Form::csv;
  Json json{{"form", csv ? "csv" : "json"}};
  if (csv) {
    json["dialect"] = files::name(file.dialect());
    json["format"] = files::has_messages(file.table()) ? "compute_comms" : "compute_only";
  }
  add_shape(json, file.shape());
  return json;
}

/// What was found, even where the text is no schedule at all.
struct Verdict {
  std::shared_ptr<const ScheduleFile> file;  ///< null when the text could not be read as one
  std::vector<Violation> violations;
};

Verdict verdict_of(const std::string& path, const std::string& text, Sends sends) {
  Verdict verdict;
  try {
    verdict.file = std::make_shared<const ScheduleFile>(path, text);
    verdict.violations = verdict.file->violations(sends);
  } catch (const Error& error) {
    verdict.violations.push_back({"format", {}, -1, -1, error.what()});
  }
  return verdict;
}

Json to_json(const Verdict& verdict) {
  Json json{{"valid", verdict.violations.empty()}, {"violations", Json::array()}};
  for (const Violation& violation : verdict.violations) {
    json["violations"].push_back(violation_json(violation));
  }
  if (verdict.file == nullptr) return json;
  json["file"] = file_json(*verdict.file);
  if (verdict.violations.empty()) {
    const auto steps = steps_of(*verdict.file);
    json["file"]["steps"] = steps ? Json(*steps) : Json(nullptr);
  }
  return json;
}

std::string to_text(const Verdict& verdict, const std::string& path) {
  if (verdict.violations.empty()) {
    const Shape& shape = verdict.file->shape();
    return fmt::format("{}: valid; {} stages on {} ranks, {} micro-batches a batch, {} batch{}\n",
                       path, shape.stages, shape.ranks(), shape.micro_batches, shape.batches,
                       shape.batches == 1 ? "" : "es");
  }
  std::string text;
  for (const Violation& violation : verdict.violations) {
    text += fmt::format("{}: {}: {}\n", path, violation.rule, violation.message);
  }
  return text;
}

Sends asked_sends(const Arguments& arguments) {
  const std::string word = arguments.choice("sends", {"buffered", "rendezvous", "grouped"});
  return word == "buffered"     ? Sends::buffered
         : word == "rendezvous" ? Sends::rendezvous
                                : Sends::grouped;
}

int run(const Arguments& arguments) {
  const auto& paths = arguments.positionals();
  require(paths.size() == 1, "check reads one schedule file, but {} given",
          paths.empty() ? "none is" : fmt::format("{} are", paths.size()));
  const std::string& path = paths.front();
  const Verdict verdict = verdict_of(path, read_text(path), asked_sends(arguments));
  if (arguments.has("json")) {
    print_json(to_json(verdict));
  } else {
    print(to_text(verdict, path));
  }
  if (verdict.violations.empty()) return 0;
  finish_output();
  const std::size_t count = verdict.violations.size();
  fail("'{}' is no valid schedule: {} violation{}, the first of rule '{}'", path, count,
       count == 1 ? "" : "s", verdict.violations.front().rule);
}

}  // namespace

Command check_command() {
  return {
      .name = "check",
      .summary = "Validate a schedule file: missing, duplicate, misplaced work, deadlocks, races",
      .positionals = {"FILE"},
      .reads_scenario = false,
      .groups = {{"Check",
                  {{"sends", "HOW",
                    "buffered, or rendezvous or grouped: deadlocks of blocking sends too"}}}},
      .run = run};
}

}  // namespace unlatch::tools
