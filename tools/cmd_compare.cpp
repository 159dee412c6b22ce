// unlatch compare: many schedules under one workload, ranked.
#include <algorithm>
#include <filesystem>

#include "schedules/error.h"
#include "schedules/replicas.h"
#include "sim/units.h"
#include "tools/bp_costs.h"
#include "tools/command.h"
#include "tools/compare_training.h"
#include "tools/outputs.h"
#include "tools/placed_errors.h"
#include "tools/report.h"
#include "tools/simulation.h"
#include "tools/simulation_json.h"
#include "tools/simulation_text.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "traces/chrome_trace.h"

namespace unlatch::tools {
namespace {

/// What is kept of one schedule once its graph is released.
struct Entry {
  double period_ms = 0;
  std::int64_t peak_bytes = 0;
  std::optional<Excess> excess;
  std::vector<std::string> cells;  ///< of the table, without the place
  Json json;
  DrawnTimeline drawn;
};

struct Wishes {
  bool json = false;
  bool report = false;
  int most_path = 0;
  std::optional<std::string> trace_directory;
};

/// "dsp:form=queue,queues=1/1/0" as a file name: "dsp-form_queue-queues_1.1.0".
std::string file_name(const std::string& specification, int place) {
  std::string name = fmt::format("{:02}-", place);
  for (char c : specification) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += plain || c == '_' || c == '.' ? c : c == '=' ? '_' : c == '/' ? '.' : '-';
  }
  return name + ".json";
}

/// Largest over the ranks of what the memory of one keeps.
template <class Part>
int most(const std::vector<RankMemory>& memory, Part part) {
  int result = 0;
  for (const RankMemory& rank : memory) result = std::max(result, rank.*part);
  return result;
}

std::vector<std::string> cells_of(const Simulation& s) {
  int staleness = 0;
  for (const StageMetrics& stage : s.metrics.stages) {
    staleness = std::max(staleness, stage.forward_staleness);
  }
  std::vector<std::string> cells{
      s.spec.text(),
      format_ms(s.steady.batch_period_ns / 1e6),
      format_number(s.work.speedup_over_bp(s.steady)),
      format_percent(s.work.utilization(s.steady)),
      format_ms(s.metrics.makespan),
      format_percent(s.metrics.bubble_ratio),
      fmt::format("{}", staleness),
      fmt::format("{}", most(s.memory, &RankMemory::peak_activations)),
      fmt::format("{}", most(s.memory, &RankMemory::peak_inputs)),
      fmt::format("{}", most(s.memory, &RankMemory::peak_weight_versions)),
      sim::format_size(s.worst_peak_bytes())};
  if (s.undisturbed) {
    cells.insert(cells.end(), {format_ms(*s.undisturbed), format_number(s.slow_down())});
  }
  if (const auto& runs = s.distribution) {
    for (const nanoseconds t : {runs->mean, runs->p50, runs->p95, runs->p99}) {
      cells.push_back(format_ms(t));
    }
  }
  cells.push_back(s.excess ? s.excess->text() : "");
  return cells;
}

Table empty_table(const sim::Disturbance& disturbance) {
  std::vector<std::string> columns{"#",           "<schedule",   "period ms", "speed-up",
                                   "utilization", "makespan ms", "bubble",    "staleness",
                                   "tapes",       "inputs",      "versions",  "memory"};
  if (!disturbance.none()) columns.insert(columns.end(), {"undisturbed ms", "slow-down"});
  if (disturbance.random())
    columns.insert(columns.end(), {"mean ms", "p50 ms", "p95 ms", "p99 ms"});
  columns.emplace_back("<over the limit");
  return Table(columns);
}

Entry entry_of(const Simulation& simulation, const Wishes& wishes, int place) {
  Entry entry{.period_ms = simulation.steady.batch_period_ns / 1e6,
              .peak_bytes = simulation.worst_peak_bytes(),
              .excess = simulation.excess,
              .cells = cells_of(simulation),
              .json = {},
              .drawn = {}};
  if (wishes.json) {
    entry.json = simulation_json(simulation, wishes.most_path);
    if (entry.excess) {
      entry.json["fits_memory_limit"] = false;
      entry.json["reason"] = entry.excess->text();
    }
  }
  if (wishes.report) {
    entry.drawn = drawn_timeline(simulation.graph, simulation.timeline);
    entry.drawn.title = simulation.spec.text();
    entry.drawn.subtitle = fmt::format("period {} ms, speed-up {}", entry.cells[1], entry.cells[2]);
  }
  if (wishes.trace_directory) {
    ChromeTraceOptions options;
    options.memory = simulation.memory;
    write_chrome_trace(
        fmt::format("{}/{}", *wishes.trace_directory, file_name(simulation.spec.text(), place)),
        simulation.graph, simulation.timeline, options);
  }
  return entry;
}

Wishes read_wishes(const Arguments& arguments) {
  Wishes wishes{.json = arguments.has("json"),
                .report = arguments.has("report"),
                .most_path = asked_path_length(arguments),
                .trace_directory = arguments.text("trace-dir")};
  if (wishes.trace_directory) {
    std::error_code failed;
    std::filesystem::create_directories(*wishes.trace_directory, failed);
    require(!failed, "{} '{}': the directory cannot be made: {}", arguments.place("trace-dir"),
            *wishes.trace_directory, failed.message());
  }
  return wishes;
}

/// Period, then worst peak memory, then the order given; what is over the limit comes last.
void rank(std::vector<Entry>& entries) {
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) {
    return std::tuple{entry.excess.has_value(), entry.period_ms, entry.peak_bytes};
  });
}

std::string settings_text(const Arguments& arguments, const Command& command) {
  std::string text = "unlatch compare";
  for (std::string_view name : command.flag_names()) {
    if (name == "report") continue;
    for (const std::string& value : arguments.all(name)) {
      text += fmt::format(" --{} {}", name, value);
    }
  }
  return text;
}

void print_text(const std::vector<Workload>& workloads, const Table& table) {
  const Shape& asked = workloads.front().shape;
  const bool one_shape = std::ranges::all_of(
      workloads, [&](const Workload& workload) { return workload.shape == asked; });
  // Only a schedule file says its shape of all copies together.
  const Shape shape = asked.copies > 1 ? one_replica(asked) : asked;
  // Schedules of several stages a rank may differ in one of the two.
  const std::string stages =
      one_shape ? fmt::format("{} stages on {} ranks, ", shape.stages_a_copy(), shape.ranks()) : "";
  const std::string replicas =
      asked.replicas > 1 ? fmt::format("{} replicas of ", asked.replicas) : "";
  print(fmt::format("{}{}{}; best first\n\n{}", replicas, stages, describe_batches(shape),
                    table.text()));
}

/// Flags of `train` that are here for --train alone.
std::vector<Flag> flags_of_training() {
  std::vector<Flag> flags = training_comparison_flags();
  const Command train = train_command();
  for (const std::string_view name :
       {"epochs", "steps", "weight-decay", "lr", "lr-schedule", "lr-scaling", "lr-base-batch",
        "clip-norm", "augment", "batch-norm-updates", "batch-ramp", "clock"}) {
    flags.push_back(*train.find(name));
  }
  flags.push_back({"evaluate-every", "N|epoch", "Batches between evaluations (epoch)"});
  return flags;
}

void require_none_of_training(const Arguments& arguments) {
  for (const Flag& flag : flags_of_training()) {
    require(!arguments.has(flag.name), "{} is for --train", arguments.place(flag.name));
  }
}

int run(const Arguments& arguments) {
  if (arguments.has("train")) return compare_training(arguments);
  require_none_of_training(arguments);
  const std::vector<ScheduleSpec> specs = asked_schedules(arguments, 0);
  require_outputs(arguments, {"report"}, {"trace-dir"});
  const Wishes wishes = read_wishes(arguments);
  std::vector<Workload> workloads;  // all read before the first is simulated
  for (const ScheduleSpec& spec : specs) {
    workloads.push_back(read_workload(arguments, spec, all_synchronous(specs)));
    require_random_runs(workloads.back());
  }
  std::vector<Entry> entries;
  for (const ScheduleSpec& spec : specs) {
    if (progress_is_shown()) say(fmt::format("simulating {}", spec.text()));
    const int place = static_cast<int>(entries.size()) + 1;
    entries.push_back(entry_of(simulate(spec, workloads[entries.size()]), wishes, place));
  }
  note_assumptions(workloads.front(), specs.front());
  note_unknown_bp(workloads.front());
  rank(entries);
  Table table = empty_table(workloads.front().disturbance);
  Json all = Json::array();
  std::vector<DrawnTimeline> drawn;
  for (Entry& entry : entries) {
    entry.cells.insert(entry.cells.begin(), fmt::format("{}", all.size() + 1));
    table.add(entry.cells);
    all.push_back(std::move(entry.json));
    drawn.push_back(std::move(entry.drawn));
  }
  if (const auto path = arguments.text("report")) {
    reading(arguments, "report", [&] {
      write_report(*path, settings_text(arguments, compare_command()), table, drawn);
    });
  }
  wishes.json ? print_json({{"schedules", all}}) : print_text(workloads, table);
  require(!entries.front().excess, "no schedule fits the memory limit: {}: {}",
          entries.front().cells[1], entries.front().excess ? entries.front().excess->text() : "");
  return 0;
}

}  // namespace

Command compare_command() {
  return {
      .name = "compare",
      .summary = "Rank schedules by steady-state batch period, then memory",
      .groups = {{"Schedules",
                  {{"schedule", "SPEC", "NAME[:key=value[,key=value...]]; once for each",
                    Flag::Kind::repeated}}},
                 shape_flags(),
                 cost_flags(),
                 simulated_memory_flags(),
                 straggler_flags(),
                 layer_flags(),
                 {"Training, with --train", flags_of_training()},
                 {"Output",
                  {{"report", "FILE.html", "Write a page with the table and the timelines"},
                   {"trace-dir", "DIR", "Write a Chrome trace of each schedule"},
                   {"critical-path", "all|N", "Most tasks of each critical path in JSON (1000)"}}}},
      .run = run};
}

}  // namespace unlatch::tools
