#include "schedules/properties.h"

#include <algorithm>

namespace unlatch {
namespace {

/// Walks a graph in its order and counts, stage by stage, what is alive.
class Counter {
 public:
  explicit Counter(const TaskGraph& graph)
      : graph_(graph), stages_(graph.shape().stages), state_(stages_) {
    for (const Task& task : graph.tasks()) recomputes_ = recomputes_ || task.op == Op::recompute;
  }

  Properties count() {
    for (const TaskId id : graph_.ids()) visit(graph_.task(id));
    Properties result;
    for (const State& s : state_) {
      result.forward_staleness.push_back(s.forward_staleness);
      result.weight_staleness.push_back(s.weight_staleness);
      result.weight_versions.push_back(s.versions.most);
      result.activations.push_back(s.tapes.most);
      result.inputs.push_back(s.inputs.most);
      result.updates.push_back(s.updates);
    }
    return result;
  }

 private:
  struct Level {
    int now = 0;
    int most = 0;
    void change(int by) {
      now += by;
      most = std::max(most, now);
    }
  };
  struct State {
    Level tapes, inputs, versions{1, 1};
    int updates = 0;
    int forward_staleness = 0;
    int weight_staleness = 0;
    std::vector<int> forward_version;  ///< by micro-batch
    std::vector<int> tape_version;     ///< by micro-batch: of the F or R that made the tape
    std::vector<MicroBatch> waiting;   ///< gradients not yet applied
  };

  void visit(const Task& task) {
    if (task.op == Op::barrier || is_send(task.op) || joins_copies(task.op)) return;
    State& s = state_[task.stage.value];
    switch (task.op) {
      case Op::forward:
        remember(s.forward_version, task);
        remember(s.tape_version, task);
        if (recomputes_) s.inputs.change(1);
        if (!task.has(replayed)) s.tapes.change(1);
        break;
      case Op::recompute:
        remember(s.tape_version, task);
        s.tapes.change(1);
        break;
      case Op::backward:
      case Op::backward_weight:
        s.tapes.change(-1);
        if (recomputes_) s.inputs.change(-1);
        s.waiting.push_back(task.micro_batch);
        break;
      case Op::update:
        apply(s, task);
        break;
      default:
        break;
    }
    if (task.op != Op::update && task.has(last_reader)) s.versions.change(-1);
  }

  void apply(State& s, const Task& update) {
    ++s.updates;
    if (update.has(keeps_old)) s.versions.change(1);
    for (const MicroBatch i : s.waiting) {
      s.forward_staleness =
          std::max(s.forward_staleness, update.version - s.forward_version[i.value]);
      s.weight_staleness = std::max(s.weight_staleness, update.version - s.tape_version[i.value]);
    }
    s.waiting.clear();
  }

  void remember(std::vector<int>& versions, const Task& task) {
    if (versions.empty()) versions.resize(graph_.shape().all_micro_batches());
    versions[task.micro_batch.value] = task.version;
  }

  const TaskGraph& graph_;
  int stages_;
  bool recomputes_ = false;
  std::vector<State> state_;
};

}  // namespace

Properties properties(const TaskGraph& graph) { return Counter(graph).count(); }

std::vector<std::vector<int>> applied_versions(const TaskGraph& graph) {
  const Shape& shape = graph.shape();
  std::vector<std::vector<int>> applied(shape.stages,
                                        std::vector<int>(shape.all_micro_batches(), -1));
  std::vector<std::vector<MicroBatch>> waiting(shape.stages);
  for (const Task& task : graph.tasks()) {
    std::vector<MicroBatch>& pending = waiting[task.stage.value];
    if (task.op == Op::backward || task.op == Op::backward_weight) {
      pending.push_back(task.micro_batch);
    } else if (task.op == Op::update) {
      for (const MicroBatch i : pending) applied[task.stage.value][i.value] = task.version;
      pending.clear();
    }
  }
  return applied;
}

std::vector<int> staleness_by_update(const TaskGraph& graph, Stage stage) {
  const std::vector<int> applied = applied_versions(graph)[stage.value];
  std::vector<int> staleness;
  for (const Task& task : graph.tasks()) {
    if (task.op != Op::forward || task.stage != stage) continue;
    const int version = applied[task.micro_batch.value];
    if (version < 0) continue;
    staleness.resize(std::max<std::size_t>(staleness.size(), version + 1), 0);
    staleness[version] = std::max(staleness[version], version - task.version);
  }
  return staleness;
}

}  // namespace unlatch
