// One sweep with vector clocks. Everything is found by number, not by hashing: a million tasks take
// a fraction of a second.
#include "schedules/races.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace unlatch {
namespace {

/// Tapes, stored inputs, activations and gradients (error) are of a micro-batch, the others of a
/// stage.
enum class Resource : std::uint8_t {
  weights,
  gradients,
  statistics,
  tape,
  input,
  activation,
  error,
  server,
};

std::string_view name(Resource resource) {
  switch (resource) {
    case Resource::weights:
      return "weights";
    case Resource::gradients:
      return "weight gradient";
    case Resource::statistics:
      return "running statistics";
    case Resource::tape:
      return "tape";
    case Resource::input:
      return "stored input";
    case Resource::activation:
      return "activation";
    case Resource::error:
      return "gradient";
    case Resource::server:
      return "server's weights";
  }
  return "?";
}

class Detector {
 public:
  Detector(const TaskGraph& graph, int limit)
      : graph_(graph),
        limit_(limit),
        lanes_(graph.lanes().size()),
        clock_(lanes_, Clock(lanes_, 0)),
        last_use_(graph.size(), -1),
        slot_(graph.size(), -1),
        count_(graph.size(), 0) {
    for (const TaskId id : graph.ids()) {
      for (const Edge edge : graph.edges_into(id)) {
        if (brings_news(edge, id)) last_use_[edge.from().value] = id.value;
      }
    }
  }

  std::vector<Violation> run() {
    for (const TaskId id : graph_.ids()) {
      advance(id);
      touch(id);
      release(id);
      if (static_cast<int>(found_.size()) >= limit_) break;
    }
    return found_;
  }

 private:
  using Clock = std::vector<std::int32_t>;  ///< by lane: tasks known to be done, counted
  static constexpr TaskId nobody{-1};
  struct History {
    TaskId writer = nobody;
    TaskId reader = nobody;  ///< newest of its lane since the write; other lanes: more_readers_
  };

  bool same_lane(TaskId a, TaskId b) const { return graph_.task(a).lane == graph_.task(b).lane; }

  /// A lane knows what it has run itself. R beside F is ordered behind what F waits for, which its
  /// own edges repeat, not behind F.
  bool brings_news(Edge edge, TaskId to) const {
    return edge.kind() != EdgeKind::beside && !same_lane(edge.from(), to);
  }

  /// The clock of a task is the maximum over what it waits for, and itself.
  void advance(TaskId id) {
    const int lane = graph_.task(id).lane;
    Clock& clock = clock_[lane];
    for (const Edge edge : graph_.edges_into(id)) {
      if (!brings_news(edge, id)) continue;
      const std::int32_t* const other = kept_clock(slot_[edge.from().value]);
      for (std::size_t l = 0; l < lanes_; ++l) clock[l] = std::max(clock[l], other[l]);
    }
    count_[id.value] = ++clock[lane];
    if (last_use_[id.value] >= 0) keep(id, clock);
  }

  void keep(TaskId id, const Clock& clock) {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<std::int32_t>(kept_.size() / lanes_));
      kept_.resize(kept_.size() + lanes_);
    }
    slot_[id.value] = free_slots_.back();
    free_slots_.pop_back();
    std::ranges::copy(clock, kept_clock(slot_[id.value]));
  }

  std::int32_t* kept_clock(std::int32_t slot) { return kept_.data() + slot * lanes_; }

  void release(TaskId id) {
    for (const Edge edge : graph_.edges_into(id)) {
      std::int32_t& slot = slot_[edge.from().value];
      if (last_use_[edge.from().value] != id.value || slot < 0) continue;
      free_slots_.push_back(slot);
      slot = -1;
    }
  }

  void touch(TaskId id) {
    const Task& task = graph_.task(id);
    const auto key = [&](Stage k) { return stage_key(k) | task.micro_batch.value; };
    const Stage k = task.stage;
    switch (task.op) {
      case Op::forward:
        read_weights(id, task);
        write(id, Resource::statistics, stage_key(k));
        if (!graph_.shape().is_first(k)) {
          const MicroBatch source = graph_.source(k, task.micro_batch);
          read(id, Resource::activation, stage_key(k - 1) | source.value);
        }
        write(id, Resource::activation, key(k));
        if (has_feedback() && graph_.shape().is_last(k)) write(id, Resource::error, key(k + 1));
        write(id, task.has(replayed) ? Resource::input : Resource::tape, key(k));
        break;
      case Op::recompute:
        read(id, Resource::weights, stage_key(k));
        read(id, Resource::input, key(k));
        write(id, Resource::tape, key(k));
        break;
      case Op::backward:
      case Op::backward_input:
        read_weights(id, task);
        read(id, Resource::tape, key(k));
        if (takes_gradient(k)) read(id, Resource::error, key(gradient_from(k)));
        write(id, Resource::error, key(k));
        if (task.op == Op::backward) write(id, Resource::gradients, gradient_key(task));
        break;
      case Op::pop_backward:
        if (task.has(learns)) read(id, Resource::error, key(k + 1));
        break;
      case Op::backward_weight:
        read(id, Resource::tape, key(k));
        write(id, Resource::gradients, gradient_key(task));
        break;
      case Op::update:
        update(id, task);
        break;
      case Op::all_reduce:
        all_reduce(id, task);
        break;
      default:
        break;
    }
  }

  static std::int64_t stage_key(Stage k) { return std::int64_t{k.value} << 32; }
  const Agreement& agreement() const { return graph_.learning().agreement; }
  bool served() const { return is_served(graph_.shape(), graph_.learning()); }
  bool is_delayed() const {
    return graph_.shape().copies > 1 && agreement().kind == Agreement::Kind::delayed;
  }

  /// Delayed copies keep the gradients of two batches apart.
  std::int64_t gradient_key(const Task& task) const {
    return stage_key(task.stage) | (is_delayed() ? batch_of(graph_, task) % 2 : 0);
  }

  void update(TaskId id, const Task& task) {
    if (served()) {
      const Stage server = graph_.shape().model_stage(task.stage);
      write(id, Resource::server, stage_key(server));
      stashed_[stage_key(server) | (task.version + 1)] = id;
    }
    if (is_delayed()) {
      read(id, Resource::gradients, gradient_key(task));
      const int batch = task.version;
      const int pulled = batch < agreement().warm_up ? batch : batch - 1;
      if (pulled >= 0 && agreement().pulls(pulled)) {
        read(id, Resource::server, stage_key(task.stage) | pulled % 2);
      }
    } else {
      write(id, Resource::gradients, gradient_key(task));
    }
    write(id, Resource::weights, stage_key(task.stage));
    if (task.has(keeps_old)) stashed_[stage_key(task.stage) | task.version] = id;
  }

  void all_reduce(TaskId id, const Task& task) {
    const bool averages = agreement().kind == Agreement::Kind::average;
    for (const Stage copy : graph_.shape().in_all_copies(task.stage)) {
      if (is_delayed()) {
        const int parity = task.version % 2;
        read(id, Resource::gradients, stage_key(copy) | parity);
        if (agreement().pulls(task.version)) {
          write(id, Resource::server, stage_key(copy) | parity);
        }
      } else {
        write(id, averages ? Resource::weights : Resource::gradients, stage_key(copy));
      }
    }
  }

  const LocalGradients& local() const { return graph_.learning().local_gradients; }
  bool has_feedback() const { return local().source == GradientSource::feedback; }
  bool takes_gradient(Stage k) const {
    return !graph_.shape().is_last(k) && local().come_from_other_stage();
  }
  /// Errors are named by the stage whose input they belong to; that of the loss comes one after the
  /// last.
  Stage gradient_from(Stage k) const {
    return has_feedback() ? graph_.shape().last_of(k) + 1 : k + 1;
  }

  /// A version in the stash, or sent by a server, is written by nobody any more, but must have been
  /// put there.
  void read_weights(TaskId id, const Task& task) {
    const Stage kept_by = served() ? graph_.shape().model_stage(task.stage) : task.stage;
    const auto stashed = stashed_.find(stage_key(kept_by) | task.version);
    if (stashed == stashed_.end()) {
      if (!served()) read(id, Resource::weights, stage_key(task.stage));
    } else {
      require_before(stashed->second, id, Resource::weights);
    }
  }

  void read(TaskId id, Resource resource, std::int64_t key) {
    History& history = history_of(resource, key);
    if (history.writer != nobody) require_before(history.writer, id, resource);
    if (history.reader == nobody || same_lane(history.reader, id)) {
      history.reader = id;
      return;
    }
    std::vector<TaskId>& more = more_readers_[&history];
    const auto mine =
        std::ranges::find_if(more, [&](TaskId reader) { return same_lane(reader, id); });
    if (mine == more.end()) {
      more.push_back(id);
    } else {
      *mine = id;
    }
  }

  void write(TaskId id, Resource resource, std::int64_t key) {
    History& history = history_of(resource, key);
    if (history.writer != nobody) require_before(history.writer, id, resource);
    if (history.reader != nobody) {
      require_before(history.reader, id, resource);
      const auto more = more_readers_.find(&history);
      if (more != more_readers_.end()) {
        for (const TaskId reader : more->second) require_before(reader, id, resource);
        more_readers_.erase(more);
      }
    }
    history = {.writer = id};
  }

  void require_before(TaskId earlier, TaskId later, Resource resource) {
    const Task& a = graph_.task(earlier);
    const Task& b = graph_.task(later);
    if (clock_[b.lane][a.lane] >= count_[earlier.value]) return;
    Violation violation{"race", {label(a), label(b)}, graph_.rank(b).value, -1, ""};
    violation.message = fmt::format(
        "race: {} and {} touch the {} of stage {} and nothing orders them (ranks {} and {}, lanes "
        "{} and {})",
        label(a), label(b), name(resource), b.stage.value, graph_.rank(a).value,
        graph_.rank(b).value, unlatch::name(graph_.lane(a).engine),
        unlatch::name(graph_.lane(b).engine));
    found_.push_back(std::move(violation));
  }

  /// Places of one stage: micro-batches, or the two batches whose gradients are kept apart.
  std::size_t places(Resource resource) const {
    const bool of_micro_batch = resource == Resource::tape || resource == Resource::input ||
                                resource == Resource::activation || resource == Resource::error;
    return of_micro_batch ? graph_.shape().all_micro_batches() : 2;
  }

  /// The key holds the stage in its upper half and the place in its lower half.
  History& history_of(Resource resource, std::int64_t key) {
    std::vector<History>& histories = history_[static_cast<int>(resource)];
    const std::size_t a_stage = places(resource);
    // One stage more: the error of the last one's loss.
    if (histories.empty()) histories.resize(a_stage * (graph_.shape().stages + 1));
    return histories[static_cast<std::size_t>(key >> 32) * a_stage +
                     static_cast<std::uint32_t>(key)];
  }

  const TaskGraph& graph_;
  const int limit_;
  const std::size_t lanes_;
  std::vector<Clock> clock_;              ///< of the newest task of each lane
  std::vector<std::int32_t> kept_;        ///< clocks of tasks that other lanes wait for
  std::vector<std::int32_t> free_slots_;  ///< of kept_, in clocks
  std::vector<std::int32_t> last_use_;    ///< by task: the last that waits for it
  std::vector<std::int32_t> slot_;        ///< by task: where its clock is kept; -1: nowhere
  std::vector<std::int32_t> count_;       ///< by task: its number on its lane, from 1
  std::unordered_map<std::int64_t, TaskId> stashed_;  ///< stage and version -> U that kept it
  std::vector<History> history_[8];                   ///< by resource; by stage and place
  std::unordered_map<const History*, std::vector<TaskId>> more_readers_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> races(const TaskGraph& graph, int limit) {
  return Detector(graph, limit).run();
}

}  // namespace unlatch
