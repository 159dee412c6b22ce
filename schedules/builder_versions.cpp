// The builder's versions: which weights each task reads, which of them must be kept for it.
#include "schedules/builder.h"
#include "schedules/error.h"

namespace unlatch {

void Builder::derive_versions(Rank rank) {
  std::vector<std::vector<Node>> updates(shape_.stages);        // by stage and version
  std::vector<std::vector<Node>> stash_readers(shape_.stages);  // newest, by stage and version
  Node node = first_node_[rank.value];
  for (const Item& item : schedule_.programs()[rank.value].items()) {
    if (item.kind != Item::Kind::task) continue;
    Task& task = tasks_[node];
    const int k = task.stage.value;
    const int current = static_cast<int>(updates[k].size());
    task.version = current;
    if (item.op == Op::forward) {
      if (keeps_only_input(task.stage, task.micro_batch)) task.flags |= replayed;
      if (item.version != newest) task.version = item.version;
      check_version(node, current);
    } else if (item.op == Op::update) {
      updates[k].push_back(node);
    } else if (item.op == Op::pop_backward) {
      const LocalGradients& local = schedule_.learning().local_gradients;
      if (local.source == GradientSource::synthesiser) task.flags |= learns;
    } else if (item.weights == Weights::as_forward) {
      task.version = tasks_[find(Op::forward, task.stage, task.micro_batch)].version;
    } else if (item.op == Op::backward_weight) {
      task.version = tasks_[find(Op::backward_input, task.stage, task.micro_batch)].version;
    }
    if (item.op != Op::update && task.version < current) {
      stash_readers[k].resize(current, none);
      stash_readers[k][task.version] = node;
    }
    ++node;
  }
  for (int k = 0; k < shape_.stages; ++k) {
    for (std::size_t version = 0; version < stash_readers[k].size(); ++version) {
      if (stash_readers[k][version] == none) continue;
      tasks_[updates[k][version]].flags |= keeps_old;
      tasks_[stash_readers[k][version]].flags |= last_reader;
    }
  }
}

/// An R will rebuild the tape; or would, had the run not ended (no drain).
bool Builder::keeps_only_input(Stage k, MicroBatch i) const {
  if (index_[static_cast<int>(Op::recompute)].empty()) return false;
  if (find(Op::recompute, k, i) != none) return true;
  return find(Op::backward, k, i) == none && find(Op::backward_input, k, i) == none;
}

/// Weights that no update has made yet cannot be read.
void Builder::check_version(Node node, int current) {
  Task& task = tasks_[node];
  if (task.version >= 0 && task.version <= current) return;
  report("version", {node},
         fmt::format("{} at {} reads version {} of the weights of stage {}, whose versions there "
                     "are 0..{}; a version exists after that many updates",
                     label(task), place(node), task.version, task.stage.value, current));
  task.version = current;
}

}  // namespace unlatch
