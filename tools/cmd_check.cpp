// unlatch check: every rule that a schedule file breaks, before anything runs.
#include "files/lowering.h"
#include "files/queue_time.h"
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/memory_check.h"
#include "tools/schedule_input.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "tools/workload.h"
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

/// A CSV file with its messages; nothing where its work overlaps, so that times are not defined.
std::optional<files::ActionTable> table_with_messages(const ScheduleFile& file) {
  if (file.form() != ScheduleFile::Form::csv) return std::nullopt;
  const files::ActionTable bare = files::without_sharding(file.table());
  for (const files::ActionRow& row : bare.rows) {
    for (const files::Action& action : row) {
      if (action.overlap != files::Overlap::none) return std::nullopt;
    }
  }
  return files::has_messages(bare) ? bare : files::with_messages(bare);
}

/// Null where a receive stands before anything that leads to its send: such a file runs where the
/// receive is only posted there, but both times are those of receives that wait.
template <class Time>
Json time_or_null(Time time) {
  try {
    return time();
  } catch (const Error&) {
    return nullptr;
  }
}

/// Times of a valid file: steps where every action and message takes one, and units of the forward
/// where the messages of a rank stand in one queue beside its work.
void add_times(Json& json, const ScheduleFile& file) {
  const auto table = table_with_messages(file);
  json["steps"] = json["queue_time"] = nullptr;
  if (!table) return;
  json["steps"] = time_or_null([&] { return files::unit_steps(*table, file.shape()); });
  json["queue_time"] = time_or_null([&] { return files::queue_time(*table); });
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
  std::vector<MemoryFault> memory;  ///< looked for where nothing else is wrong

  bool valid() const { return violations.empty() && memory.empty(); }
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

/// A limit, and some size that can break it; one without the other says nothing.
bool asks_for_memory(const Arguments& arguments) {
  const bool limit = arguments.has("memory-limit");
  bool size = false;
  for (const Flag& flag : memory_flags().flags) {
    if (flag.name == "memory-limit" || !arguments.has(flag.name)) continue;
    size = true;
    require(limit, "{} needs --memory-limit SIZE, what a rank may keep",
            arguments.place(flag.name));
  }
  require(size || !limit, "{} needs a size to compare with, such as --activation-size SIZE",
          arguments.place("memory-limit"));
  return limit;
}

std::vector<MemoryFault> memory_faults_of(const Arguments& arguments,
                                          const files::ScheduleFile& file) {
  const MemorySizes sizes = read_memory_sizes(arguments, file.shape().stages_a_copy());
  return memory_faults(file, sizes, *arguments.size("memory-limit"));
}

Json memory_json(const MemoryFault& fault) {
  Json json = violation_json(fault.violation());
  json["rank"] = fault.excess.rank.value;
  json["needed_bytes"] = fault.excess.needed;
  json["allowed_bytes"] = fault.excess.limit;
  return json;
}

Json to_json(const Verdict& verdict) {
  Json json{{"valid", verdict.valid()}, {"violations", Json::array()}};
  for (const Violation& violation : verdict.violations) {
    json["violations"].push_back(violation_json(violation));
  }
  for (const MemoryFault& fault : verdict.memory) {
    json["violations"].push_back(memory_json(fault));
  }
  if (verdict.file == nullptr) return json;
  json["file"] = file_json(*verdict.file);
  if (verdict.violations.empty()) add_times(json["file"], *verdict.file);
  return json;
}

std::string to_text(const Verdict& verdict, const std::string& path) {
  if (verdict.valid()) return fmt::format("{}: valid; {}\n", path, describe(verdict.file->shape()));
  std::string text;
  for (const Violation& violation : verdict.violations) {
    text += fmt::format("{}: {}: {}\n", path, violation.rule, violation.message);
  }
  for (const MemoryFault& fault : verdict.memory) {
    text += fmt::format("{}: memory: {}\n", path, fault.violation().message);
  }
  return text;
}

int run(const Arguments& arguments) {
  const auto& paths = arguments.positionals();
  require(paths.size() == 1, "check reads one schedule file, but {} given",
          paths.empty() ? "none is" : fmt::format("{} are", paths.size()));
  const std::string& path = paths.front();
  const bool memory = asks_for_memory(arguments);
  Verdict verdict = verdict_of(path, read_text(path), asked_sends(arguments));
  if (memory && verdict.valid()) verdict.memory = memory_faults_of(arguments, *verdict.file);
  if (arguments.has("json")) {
    print_json(to_json(verdict));
  } else {
    print(to_text(verdict, path));
  }
  if (verdict.valid()) return 0;
  finish_output();
  if (!verdict.memory.empty()) {
    const std::size_t over = verdict.memory.size();
    fail("'{}' does not fit the memory limit on {} rank{}, the first of them rank {}", path, over,
         over == 1 ? "" : "s", verdict.memory.front().excess.rank.value);
  }
  const std::size_t count = verdict.violations.size();
  fail("'{}' is no valid schedule: {} violation{}, the first of rule '{}'", path, count,
       count == 1 ? "" : "s", verdict.violations.front().rule);
}

}  // namespace

Command check_command() {
  return {
      .name = "check",
      .summary =
          "Validate a schedule file: missing, duplicate, misplaced work, deadlocks, races, memory",
      .positionals = {"FILE"},
      .reads_scenario = false,
      .groups = {{"Check",
                  {{"sends", "HOW",
                    "buffered, or rendezvous or grouped: deadlocks of blocking sends too"}}},
                 memory_flags()},
      .run = run};
}

}  // namespace unlatch::tools
