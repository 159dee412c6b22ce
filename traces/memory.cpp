#include "traces/memory.h"

#include <algorithm>
#include <tuple>

#include "traces/queues.h"

namespace unlatch {

namespace {

std::int64_t size_of(const std::vector<std::int64_t>& sizes, Stage k) {
  return sizes.empty() ? 0 : sizes[k.value];
}

/// What a task adds or frees at its start or end.
struct Change {
  nanoseconds at{0};
  TaskId task;
  bool first = false;  ///< the end of a task that began earlier: comes before all else at `at`
  bool at_end = false;
  int activations = 0;
  int inputs = 0;
  int weight_versions = 0;
  std::int64_t bytes = 0;
  int queued = 0;
  std::int64_t queued_bytes = 0;

  bool empty() const {
    return activations == 0 && inputs == 0 && weight_versions == 0 && bytes == 0 && queued == 0;
  }
  auto place() const { return std::tuple(at, !first, task, at_end); }
};

/// Reads the tasks of a graph in order and notes the changes of each rank.
class ChangeReader {
 public:
  ChangeReader(const TaskGraph& graph, const Timeline& timeline, const MemorySizes& sizes)
      : graph_(graph),
        timeline_(timeline),
        sizes_(sizes),
        queues_(graph, sizes),
        changes_(graph.ranks()) {
    stashed_.resize(graph.shape().stages);
    for (const Task& task : graph.tasks()) {
      recomputes_ = recomputes_ || task.op == Op::recompute;
    }
  }

  std::vector<std::vector<Change>> read() {
    for (const TaskId id : graph_.ids()) {
      if (sizes_.knows_queues()) follow_queues(id);
      if (!is_compute(graph_.task(id).op)) continue;
      add(id, at_start(id));
      add(id, at_end(id));
    }
    for (std::vector<Change>& changes : changes_) {
      // What a task does to queues comes first: it takes before it keeps, and sends before it
      // frees.
      std::ranges::stable_sort(changes, {}, &Change::place);
    }
    return std::move(changes_);
  }

 private:
  void add(TaskId id, const Change& change) {
    if (!change.empty()) changes_[graph_.rank(graph_.task(id)).value].push_back(change);
  }

  /// Of any rank: a task takes what another rank has made.
  void follow_queues(TaskId id) {
    const Task& task = graph_.task(id);
    const Span span = timeline_[id];
    const auto note = [&](const QueueChange& queue, Change change) {
      change.queued = queue.count;
      change.queued_bytes = queue.bytes;
      changes_[queue.rank.value].push_back(change);
    };
    const Change start{.at = span.start, .task = id};
    const Change end{
        .at = span.end, .task = id, .first = span.length() > nanoseconds{0}, .at_end = true};
    for (const QueueChange& queue : queues_.taken(task)) note(queue, start);
    for (const QueueChange& queue : queues_.left(task)) note(queue, end);
  }

  Change at_start(TaskId id) {
    const Task& task = graph_.task(id);
    Change change{.at = timeline_[id].start, .task = id};
    if (task.op == Op::forward && recomputes_) add_inputs(task, 1, change);
    const bool makes_tape =
        task.op == Op::recompute || (task.op == Op::forward && !task.has(replayed));
    if (makes_tape) {
      ++change.activations;
      change.bytes += size_of(sizes_.activation, task.stage);
    }
    if (task.op == Op::update && task.has(keeps_old)) {
      stash(task) = true;
      add_versions(task, 1, change);
    }
    return change;
  }

  Change at_end(TaskId id) {
    const Task& task = graph_.task(id);
    const Span span = timeline_[id];
    Change change{
        .at = span.end, .task = id, .first = span.length() > nanoseconds{0}, .at_end = true};
    const std::int64_t kept_for_weight = size_of(sizes_.weight_grad_activation, task.stage);
    if (gives_input_gradient(task.op)) change.bytes -= size_of(sizes_.activation, task.stage);
    if (task.op == Op::backward_input) change.bytes += kept_for_weight;
    if (task.op == Op::backward_weight) change.bytes -= kept_for_weight;
    if (task.op == Op::backward || task.op == Op::backward_weight) {
      --change.activations;
      if (recomputes_) add_inputs(task, -1, change);
    }
    if (task.op != Op::update && task.has(last_reader) && stash(task)) {
      stash(task) = false;
      add_versions(task, -1, change);
    }
    return change;
  }

  void add_inputs(const Task& task, int count, Change& change) const {
    change.inputs += count;
    change.bytes += count * size_of(sizes_.input, task.stage);
  }
  void add_versions(const Task& task, int count, Change& change) const {
    change.weight_versions += count;
    change.bytes += count * size_of(sizes_.weight, task.stage);
  }

  /// Whether a version of a stage has been overwritten and is kept for later readers. The graph's
  /// order is the order of a stage's tasks, so this follows the run whatever the times.
  std::vector<bool>::reference stash(const Task& task) {
    std::vector<bool>& versions = stashed_[task.stage.value];
    const std::size_t version = task.version;
    if (versions.size() <= version) versions.resize(version + 1, false);
    return versions[version];
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  const MemorySizes& sizes_;
  Queues queues_;
  std::vector<std::vector<Change>> changes_;
  std::vector<std::vector<bool>> stashed_;
  bool recomputes_ = false;
};

/// What the rank keeps before any task: one version of the weights, gradient, optimizer state.
MemoryLevel first_level(const TaskGraph& graph, const MemorySizes& sizes, Rank rank) {
  MemoryLevel level{.cause = TaskId{-1}};
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    if (graph.rank_of(k) != rank) continue;
    ++level.weight_versions;
    level.bytes +=
        size_of(sizes.weight, k) + size_of(sizes.gradient, k) + size_of(sizes.optimizer, k);
  }
  return level;
}

void apply(const Change& change, MemoryLevel& level) {
  level.at = change.at;
  level.cause = change.task;
  level.activations += change.activations;
  level.inputs += change.inputs;
  level.weight_versions += change.weight_versions;
  level.bytes += change.bytes;
  level.queued += change.queued;
  level.queued_bytes += change.queued_bytes;
}

RankMemory rank_memory(const TaskGraph& graph, const MemorySizes& sizes, Rank rank,
                       const std::vector<Change>& changes) {
  RankMemory memory;
  MemoryLevel level = first_level(graph, sizes, rank);
  memory.levels.push_back(level);
  memory.peak = level;
  std::int64_t peak_with_queues = level.bytes;
  std::vector<int> versions(graph.shape().stages, 1);
  memory.peak_weight_versions = level.weight_versions > 0 ? 1 : 0;
  for (const Change& change : changes) {
    apply(change, level);
    int& of_stage = versions[graph.task(change.task).stage.value];
    of_stage += change.weight_versions;
    memory.peak_weight_versions = std::max(memory.peak_weight_versions, of_stage);
    memory.peak_activations = std::max(memory.peak_activations, level.activations);
    memory.peak_inputs = std::max(memory.peak_inputs, level.inputs);
    if (level.bytes > memory.peak.bytes) memory.peak = level;
    peak_with_queues = std::max(peak_with_queues, level.bytes + level.queued_bytes);
    if (memory.levels.size() > 1 && memory.levels.back().at == level.at) {
      memory.levels.back() = level;
    } else {
      memory.levels.push_back(level);
    }
  }
  if (sizes.knows_queues()) memory.peak_with_queues = peak_with_queues;
  return memory;
}

}  // namespace

MemorySizes MemorySizes::in_one_piece(int parts) const {
  MemorySizes sizes = *this;
  for (std::vector<std::int64_t>* each :
       {&sizes.activation, &sizes.input, &sizes.weight_grad_activation, &sizes.output,
        &sizes.output_gradient}) {
    for (std::int64_t& bytes : *each) bytes *= parts;
  }
  return sizes;
}

MemorySizes MemorySizes::for_copies(int copies) const {
  MemorySizes sizes = *this;
  for (std::vector<std::int64_t>* each :
       {&sizes.activation, &sizes.input, &sizes.weight_grad_activation, &sizes.weight,
        &sizes.gradient, &sizes.optimizer, &sizes.output, &sizes.output_gradient}) {
    const std::vector<std::int64_t> one = *each;
    for (int c = 1; c < copies; ++c) each->insert(each->end(), one.begin(), one.end());
  }
  return sizes;
}

std::vector<RankMemory> memory(const TaskGraph& graph, const Timeline& timeline,
                               const MemorySizes& sizes) {
  const std::vector<std::vector<Change>> changes = ChangeReader(graph, timeline, sizes).read();
  std::vector<RankMemory> ranks;
  for (const Rank r : up_to<Rank>(graph.ranks())) {
    ranks.push_back(rank_memory(graph, sizes, r, changes[r.value]));
  }
  return ranks;
}

std::optional<MemoryLevel> first_above(const RankMemory& rank, std::int64_t limit) {
  for (const MemoryLevel& level : rank.levels) {
    if (level.bytes > limit) return level;
  }
  if (rank.peak.bytes > limit) return rank.peak;  // within a moment, by a task of no length
  return std::nullopt;
}

}  // namespace unlatch
