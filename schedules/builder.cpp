#include "schedules/builder.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedules/error.h"
#include "schedules/graph_algorithms.h"

namespace unlatch {
namespace {

/// Runs the programs with a window of micro-batches that is as wide as they need: most look back a
/// few, a few look back far.
ProgramRunner run_programs(const Schedule& schedule, const ProgramFacts& facts, bool& ended_well) {
  for (std::int64_t margin = 8 + std::int64_t{facts.most_capacity};; margin *= 64) {
    const std::int64_t all = schedule.shape().all_micro_batches();
    try {
      ProgramRunner runner(schedule, facts, static_cast<int>(std::min(margin, all)));
      ended_well = runner.run();
      return runner;
    } catch (const TasksInFlight::Forgotten&) {
      if (margin >= all) throw;
    }
  }
}

/// Numbers the versions of the server's weights and tells each copy which of them it reads: a copy
/// is sent the weights behind its own update and those that the bound makes it wait for.
void number_served_versions(const Schedule& schedule, ProgramRunner& runner) {
  const Shape& shape = schedule.shape();
  const Agreement& agreement = schedule.learning().agreement;
  const auto& updates = runner.updates();
  for (const Stage k : up_to<Stage>(shape.stages_a_copy())) {
    const auto each = static_cast<int>(updates[k.value].size());
    std::vector<int> next(shape.copies, 0);
    for (int n = 0; n < each * shape.copies; ++n) {
      const int copy = agreement.order.empty() ? n % shape.copies : agreement.order[k.value][n];
      const Stage own = k + copy * shape.stages_a_copy();
      runner.tasks[updates[own.value][next[copy]++]].version = n;
    }
  }
  std::vector<std::vector<int>> sent(shape.stages, {0});
  for (const Stage k : up_to<Stage>(shape.stages)) {
    for (int n = 0; n < std::ssize(updates[k.value]); ++n) {
      int version = runner.tasks[updates[k.value][n]].version + 1;
      for (const Stage other : shape.in_all_copies(k)) {
        if (n < agreement.bound) break;
        const int waited_for = updates[other.value][n - agreement.bound];
        version = std::max(version, runner.tasks[waited_for].version + 1);
      }
      sent[k.value].push_back(version);
    }
  }
  for (Task& task : runner.tasks) {
    if (task.op == Op::update || task.op == Op::barrier) continue;
    task.version = sent[task.stage.value][task.version];
  }
}

/// With a server a copy reads only what it was sent last.
std::vector<Violation> stale_reads(std::span<const Task> tasks) {
  std::vector<Violation> found;
  for (const Task& task : tasks) {
    if (task.op != Op::update || !task.has(keeps_old)) continue;
    found.push_back({"copies",
                     {label(task)},
                     -1,
                     -1,
                     fmt::format("stage {} still reads its old weights after {}; with a server a "
                                 "copy reads only what it was sent last",
                                 task.stage.value, label(task))});
  }
  return found;
}

}  // namespace

std::vector<Violation> Builder::violations() const {
  if (!facts_.stages_exist) return ProgramChecks(schedule_, facts_).violations();
  bool ended_well = false;
  ProgramRunner runner = run_programs(schedule_, facts_, ended_well);
  if (!ended_well) return violations_of(runner);
  if (!is_served(schedule_.shape(), schedule_.learning())) return {};
  number_served_versions(schedule_, runner);
  return stale_reads(runner.tasks);
}

TaskGraph Builder::build() const {
  const auto refuse = [this](const std::vector<Violation>& violations) {
    require(violations.empty(), "{}: {}", schedule_.specification(),
            violations.empty() ? "" : violations.front().message);
  };
  require(facts_.tasks < Edge::max_tasks, "{}: {} tasks do not fit one graph (at most {})",
          schedule_.specification(), facts_.tasks, Edge::max_tasks);
  if (!facts_.stages_exist) refuse(ProgramChecks(schedule_, facts_).violations());
  bool ended_well = false;
  ProgramRunner runner = run_programs(schedule_, facts_, ended_well);
  if (!ended_well) refuse(violations_of(runner));
  if (is_served(schedule_.shape(), schedule_.learning())) {
    number_served_versions(schedule_, runner);
    refuse(stale_reads(runner.tasks));
  }
  TaskGraph::Parts parts;
  parts.schedule = schedule_.specification();
  parts.learning = schedule_.learning();
  parts.shape = schedule_.shape();
  parts.lanes = facts_.lanes;
  for (const Stage k : up_to<Stage>(schedule_.shape().stages)) {
    parts.rank_of_stage.push_back(schedule_.rank_of(k));
  }
  parts.tasks = std::move(runner.tasks);
  parts.first_edge = std::move(runner.first_edge);
  parts.edges = std::move(runner.edges);
  return TaskGraph(std::move(parts));
}

/// Why the programs stopped: a rule of each program by itself, else they wait for each other.
std::vector<Violation> Builder::violations_of(const ProgramRunner& stopped) const {
  const ProgramChecks checks(schedule_, facts_);
  if (!checks.violations().empty()) return checks.violations();
  return {deadlock(checks, stopped.progress())};
}

Violation Builder::deadlock(const ProgramChecks& checks,
                            const std::vector<std::int64_t>& progress) const {
  ProgramRunner runner(schedule_, facts_, schedule_.shape().all_micro_batches());
  runner.run_regardless();
  const std::vector<bool> has_run = first_of_each(runner, progress);
  const auto predecessors = [&](int node, const std::function<void(int)>& visit) {
    if (has_run[node]) return;  // takes part in no cycle
    for (std::uint32_t e = runner.first_edge[node]; e < runner.first_edge[node + 1]; ++e) {
      const int from = runner.edges[e].from().value;
      if (!has_run[from]) visit(from);
    }
  };
  const std::vector<int> cycle =
      shortest_cycle(static_cast<int>(runner.tasks.size()), predecessors);
  if (cycle.empty()) return blocked(runner.tasks, has_run);
  Violation violation{"deadlock", {}, -1, -1, ""};
  std::vector<std::string> places;
  for (const int node : cycle) {
    const Task& task = runner.tasks[node];
    violation.tasks.push_back(label(task));
    places.push_back(
        fmt::format("rank {} {}", facts_.lanes[task.lane].rank.value, violation.tasks.back()));
  }
  std::tie(violation.row, violation.column) = checks.row_and_column(cycle.front());
  violation.message = cycle_text(places);
  return violation;
}

/// By node of a run regardless: the first tasks of each program, as many as it got through.
std::vector<bool> Builder::first_of_each(const ProgramRunner& regardless,
                                         const std::vector<std::int64_t>& progress) const {
  std::vector<bool> has_run(regardless.tasks.size(), false);
  std::size_t first = 0;
  const std::vector<std::int64_t> sizes = regardless.progress();
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    std::fill_n(has_run.begin() + static_cast<std::ptrdiff_t>(first), progress[p], true);
    first += static_cast<std::size_t>(sizes[p]);
  }
  return has_run;
}

/// Nobody makes what a task waits for, which no other rule has found.
Violation Builder::blocked(std::span<const Task> tasks, const std::vector<bool>& has_run) const {
  const auto first = std::ranges::find(has_run, false) - has_run.begin();
  const Task& task = tasks[static_cast<std::size_t>(first)];
  const Rank rank = facts_.lanes[task.lane].rank;
  return {
      "missing",
      {label(task)},
      rank.value,
      -1,
      fmt::format("{} on rank {} waits for something that no task makes", label(task), rank.value)};
}

}  // namespace unlatch
