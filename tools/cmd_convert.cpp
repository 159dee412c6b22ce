// unlatch convert: schedule files from one form to another, a schedule of the catalogue to a file,
// a trace to a compressed one and back.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "files/lowering.h"
#include "files/native_json.h"
#include "files/table_schedule.h"
#include "files/waits.h"
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/schedule_input.h"
#include "tools/shape_options.h"
#include "tools/terminal.h"
#include "tools/workload.h"
#include "traces/atomic_file.h"
#include "traces/input_file.h"
#include "traces/trace_reader.h"

namespace unlatch::tools {
namespace {

bool ends_with(std::string_view path, std::string_view ending) {
  return path.ends_with(ending) || path.ends_with(fmt::format("{}.gz", ending));
}

bool is_file_name(const std::string& input) {
  std::error_code ignored;
  return ends_with(input, ".csv") || ends_with(input, ".json") || input.ends_with(".gz") ||
         std::filesystem::exists(input, ignored);
}

/// A Chrome trace: an object with traceEvents, or a bare list of events.
bool looks_like_trace(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  constexpr std::size_t head = 4096;
  return text[first] == '[' ||
         (text[first] == '{' && text.substr(0, head).find("\"traceEvents\"") != std::string::npos);
}

/// The same events, compressed or not as the name says; read first, so that no damaged trace is
/// passed on.
void convert_trace(const std::string& input, const std::string& output, const std::string& text) {
  require(ends_with(output, ".json"),
          "'{}' is a trace; OUT must end in .json or .json.gz, not '{}'", input, output);
  for (const std::string& warning : read_tasks(input).warnings) {
    say(fmt::format("warning: {}", warning));
  }
  write_file(output, text);
}

/// What is written, and about what.
struct Source {
  Schedule schedule;
  std::optional<files::ActionTable> table;  ///< of a CSV file: overlaps and messages included
};

Source source_of(const ScheduleSpec& spec, const Shape& shape) {
  require(
      shape.micro_batches == 1 || spec.pipeline().uses_micro_batches,
      "--microbatches {}: {} runs a batch in one piece, and the file would hold 1 micro-batch a "
      "batch; leave --microbatches out",
      shape.micro_batches, spec.method().name);
  Source source{spec.make(shape), std::nullopt};
  source.schedule.build();  // refuses what cannot run
  return source;
}

Source read_source(const Arguments& arguments, const std::string& input, const std::string& text) {
  const bool file = is_file_name(input);
  if (!file) {
    const ScheduleSpec spec = read_schedule(input);
    return source_of(spec, read_shape(arguments, spec, /*synchronous=*/spec.method().synchronous));
  }
  for (std::string_view name : {"stages", "ranks", "chunks", "microbatches", "batches", "drain"}) {
    require(!arguments.has(name), "{} contradicts the file '{}', which has a shape of its own",
            arguments.place(name), input);
  }
  const files::ScheduleFile read(input, text);
  read.require_valid();
  Source source{read.schedule(read.shape().batches), std::nullopt};
  if (read.form() == files::ScheduleFile::Form::csv) source.table = read.table();
  return source;
}

/// What a compute_comms file holds beside the messages.
struct Extras {
  bool shards = false, waits = false;
};

/// Messages, shards and waits that the table has already stay where they are.
files::ActionTable lowered(const files::ActionTable& table, int micro_batches, Extras extras) {
  const bool complete = files::has_messages(table);
  files::ActionTable result = extras.shards && complete ? table : files::without_sharding(table);
  if (extras.shards && !complete) result = files::with_sharding(result, micro_batches);
  if (!extras.waits) result = files::without_waits(result);
  const bool add_waits = extras.waits && !files::has_waits(result);
  if (add_waits) result = files::with_reduction_waits(result);
  if (!complete) result = files::with_messages(result);
  return add_waits ? files::with_send_waits(result) : result;
}

/// Only F, B, I and W, with their overlaps.
files::ActionTable compute_only(const files::ActionTable& table) {
  files::ActionTable result;
  for (const files::ActionRow& row : table.rows) {
    files::ActionRow& kept = result.rows.emplace_back();
    for (const files::Action& action : row) {
      if (files::is_compute(action.kind)) kept.push_back(action);
    }
  }
  return result;
}

std::string csv_of(const Arguments& arguments, const Source& source) {
  const std::string format = arguments.choice("format", {"compute_only", "compute_comms"});
  const bool shards = arguments.yes("shards", false);
  const bool waits = arguments.yes("waits", false);
  const files::ActionTable table = source.table ? *source.table : files::table_of(source.schedule);
  if (format == "compute_only") {
    require(!shards, "{} needs --format compute_comms", arguments.place("shards"));
    require(!waits, "{} needs --format compute_comms", arguments.place("waits"));
    return files::pipeline_csv(compute_only(table));
  }
  return files::pipeline_csv(
      lowered(table, source.schedule.shape().micro_batches, {shards, waits}));
}

std::string schedule_text(const Arguments& arguments, const std::string& output,
                          const Source& source) {
  if (ends_with(output, ".csv")) return csv_of(arguments, source);
  require(ends_with(output, ".json"),
          "OUT '{}' must end in .csv (PyTorch's pipelining) or .json (the native form)", output);
  for (std::string_view name : {"format", "shards", "waits"}) {
    require(!arguments.has(name), "{} is for CSV files, and '{}' is none", arguments.place(name),
            output);
  }
  return files::native_json(source.schedule);
}

int run(const Arguments& arguments) {
  const auto& names = arguments.positionals();
  require(names.size() == 2, "convert takes IN and OUT, but {} given",
          names.size() == 1 ? "one is" : fmt::format("{} are", names.size()));
  const std::string& input = names[0];
  const std::string& output = names[1];
  const std::string text = is_file_name(input) ? read_text(input) : "";
  if (looks_like_trace(text)) {
    convert_trace(input, output, text);
  } else {
    const Source source = read_source(arguments, input, text);
    write_file(output, schedule_text(arguments, output, source));
  }
  if (arguments.has("json")) print_json({{"input", input}, {"output", output}});
  return 0;
}

}  // namespace

Command convert_command() {
  return {.name = "convert",
          .summary = "Convert a schedule (SPEC, .csv, .json) or a trace (.json, .json.gz)",
          .positionals = {"IN", "OUT"},
          .reads_scenario = false,
          .groups = {shape_flags(),
                     {"CSV files",
                      {{"format", "HOW", "compute_only, or compute_comms with the messages"},
                       {"shards", "yes|no",
                        "compute_comms: UNSHARD, RESHARD and REDUCE_GRAD as well (no)"},
                       {"waits", "yes|no",
                        "compute_comms: WAIT_SEND_F, WAIT_SEND_B and WAIT_REDUCE_GRAD, which "
                        "PyTorch asks for from 2.15 on (no)"}}}},
          .run = run};
}

}  // namespace unlatch::tools
