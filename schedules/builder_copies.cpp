// The builder's edges between the copies of a model: sums, averages and servers (see Agreement).
#include <algorithm>
#include <utility>

#include "schedules/builder.h"
#include "schedules/error.h"

namespace unlatch {

using Kind = Agreement::Kind;

int Builder::updates_an_all_reduce() const {
  return agreement().kind == Kind::average ? agreement().period : 1;
}

void Builder::collect_updates() {
  updates_.resize(shape_.stages);
  for (Node node = 0; node < first_barrier(); ++node) {
    if (tasks_[node].op == Op::update) updates_[tasks_[node].stage.value].push_back(node);
  }
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    const std::vector<Node>& first_copy = updates_[shape_.model_stage(k).value];
    if (updates_[k.value].size() != first_copy.size()) {
      report("copies", {},
             fmt::format("stage {} is updated {} times in copy 0 of the model and {} times in copy "
                         "{}; the copies update together",
                         shape_.model_stage(k).value, first_copy.size(), updates_[k.value].size(),
                         shape_.copy_of(k)));
    }
  }
}

void Builder::add_all_reduce_nodes() {
  all_reduces_.resize(shape_.stages_a_copy());
  const int period = updates_an_all_reduce();
  for (const Stage k : up_to<Stage>(shape_.stages_a_copy())) {
    first_node_.push_back(static_cast<Node>(tasks_.size()));
    const std::size_t updates = updates_[k.value].size();
    for (std::size_t n = 0; n < updates; ++n) {
      // The last update is joined too, so that a run ends with one model.
      if ((n + 1) % period != 0 && n + 1 != updates) continue;
      Task task = tasks_[updates_[k.value][n]];
      task.op = Op::all_reduce;
      task.version = static_cast<std::int32_t>(n);
      task.lane = find_lane({schedule_.rank_of(k), Engine::all_reduce, k});
      all_reduces_[k.value].push_back(static_cast<Node>(tasks_.size()));
      columns_.push_back(static_cast<std::int32_t>(n));
      tasks_.push_back(task);
    }
  }
  joined_.resize(static_cast<Node>(tasks_.size()) - first_all_reduce());
}

Builder::Node Builder::all_reduce_of(Stage k, int number) const {
  const std::vector<Node>& mine = all_reduces_[shape_.model_stage(k).value];
  return number >= 0 && number < std::ssize(mine) ? mine[number] : none;
}

// ---- a server's updates --------------------------------------------------------------------

/// The updates of all copies of a stage in the order in which the server applies them.
std::vector<Builder::Node> Builder::served_in_order(Stage model_stage) {
  const auto of_copy = [&](int copy) -> const std::vector<Node>& {
    return updates_[model_stage.value + copy * shape_.stages_a_copy()];
  };
  const std::size_t each = of_copy(0).size();
  std::vector<Node> served;
  if (agreement().order.empty()) {
    for (std::size_t n = 0; n < each; ++n) {
      for (int copy = 0; copy < shape_.copies; ++copy) served.push_back(of_copy(copy)[n]);
    }
    return served;
  }
  std::vector<std::size_t> next(shape_.copies, 0);
  for (const int copy : agreement().order[model_stage.value]) {
    if (next[copy] < each) served.push_back(of_copy(copy)[next[copy]]);
    ++next[copy];
  }
  if (std::ranges::any_of(next, [&](std::size_t n) { return n != each; })) {
    report("copies", {},
           fmt::format("the order of the server's updates of stage {} must name each of the {} "
                       "copies {} times, once for each of its updates",
                       model_stage.value, shape_.copies, each));
  }
  return served;
}

/// Numbers the versions of the server's weights and tells each copy which of them it reads.
void Builder::serve_updates() {
  served_before_.assign(first_barrier(), none);
  for (const Stage k : up_to<Stage>(shape_.stages_a_copy())) {
    const std::vector<Node> served = served_in_order(k);
    for (std::size_t n = 0; n < served.size(); ++n) {
      Task& task = tasks_[served[n]];
      task.version = static_cast<std::int32_t>(n);
      if (task.has(keeps_old)) {
        report("copies", {served[n]},
               fmt::format("stage {} still reads its old weights after {}; with a server a copy "
                           "reads only what it was sent last",
                           task.stage.value, label(task)));
      }
      if (n > 0 && !agreement().any_order) served_before_[served[n]] = served[n - 1];
    }
  }
  for (const Stage k : up_to<Stage>(shape_.stages)) derive_served_versions(k);
}

/// A copy is sent the weights behind its own update and those that the bound makes it wait for.
void Builder::derive_served_versions(Stage k) {
  const auto& mine = updates_[k.value];
  std::vector<int> sent{0};
  for (int n = 0; n < static_cast<int>(mine.size()); ++n) {
    int version = tasks_[mine[n]].version + 1;
    for (const Stage other : shape_.in_all_copies(k)) {
      if (n < agreement().bound) break;
      version = std::max(version, tasks_[updates_[other.value][n - agreement().bound]].version + 1);
    }
    sent.push_back(version);
  }
  const Rank rank = schedule_.rank_of(k);
  for (Node node = first_node_[rank.value]; node < first_node_[rank.value + 1]; ++node) {
    Task& task = tasks_[node];
    if (task.stage == k && task.op != Op::update) task.version = sent[task.version];
  }
}

// ---- edges ---------------------------------------------------------------------------------

void Builder::join_copies(Node node) {
  const Task& task = tasks_[node];
  std::vector<Node>& pending = pending_[task.stage.value];
  for (const Node from : pending) {
    add_edge(from, has_all_reduces() ? EdgeKind::all_reduce : EdgeKind::version);
  }
  pending.clear();
  const bool gives_gradient = task.op == Op::backward || task.op == Op::backward_weight;
  if (agreement().kind == Kind::delayed) join_delayed(node);
  if (gives_gradient) newest_gradient_[task.stage.value] = node;
  if (task.op != Op::update) return;
  if (agreement().kind == Kind::sum) join_summed(node);
  if (agreement().kind == Kind::average) join_averaged(node);
  if (agreement().kind == Kind::server) join_served(node);
  newest_gradient_[task.stage.value] = none;
}

/// The newest gradient of each copy goes into AR, the sum comes out before the update.
void Builder::join_summed(Node node) {
  const Task& task = tasks_[node];
  const Node all_reduce = all_reduce_of(task.stage, task.version);
  joined_[all_reduce - first_all_reduce()].push_back(newest_gradient_[task.stage.value]);
  add_edge(all_reduce, EdgeKind::all_reduce);
}

/// Weights go into AR after an update and come out before they are used again.
void Builder::join_averaged(Node node) {
  const Task& task = tasks_[node];
  const int period = agreement().period;
  const int updates = static_cast<int>(updates_[task.stage.value].size());
  if ((task.version + 1) % period != 0 && task.version + 1 != updates) return;
  const Node all_reduce = all_reduce_of(task.stage, task.version / period);
  joined_[all_reduce - first_all_reduce()].push_back(node);
  pending_[task.stage.value].push_back(all_reduce);
}

/// Updates of one server follow each other; the next batch waits for what the bound says.
void Builder::join_served(Node node) {
  const Stage k = tasks_[node].stage;
  if (served_before_[node] != none) add_edge(served_before_[node], EdgeKind::version);
  const auto& mine = updates_[k.value];
  const auto n = static_cast<int>(std::ranges::lower_bound(mine, node) - mine.begin());
  if (n < agreement().bound) return;
  for (const Stage other : shape_.in_all_copies(k)) {
    if (other != k) pending_[k.value].push_back(updates_[other.value][n - agreement().bound]);
  }
}

/// SSD-SGD: AR joins the gradients of a batch while the copies go on. A copy's first gradient of
/// batch t takes the place of that of batch t-2, which AR must have read; and its update takes the
/// server's weights in the warm-up, or those that it has pulled since its last update.
void Builder::join_delayed(Node node) {
  const Task& task = tasks_[node];
  const int k = task.stage.value;
  const int batch = task.micro_batch.value / shape_.micro_batches;
  const bool gives_gradient = task.op == Op::backward || task.op == Op::backward_weight;
  if (gives_gradient && newest_gradient_[k] == none && batch - 2 >= agreement().warm_up) {
    add_edge(all_reduce_of(task.stage, batch - 2), EdgeKind::all_reduce);
  }
  if (task.op != Op::update) return;
  const Node all_reduce = all_reduce_of(task.stage, task.version);
  joined_[all_reduce - first_all_reduce()].push_back(newest_gradient_[k]);
  const int warm_up = agreement().warm_up;
  if (task.version < warm_up) add_edge(all_reduce, EdgeKind::all_reduce);
  const int last = task.version - 1;
  if (last >= warm_up && agreement().pulls(last)) {
    add_edge(all_reduce_of(task.stage, last), EdgeKind::all_reduce);
  }
}

void Builder::add_all_reduce_edges() {
  for (const std::vector<Node>& lane : all_reduces_) {
    for (const Node node : lane) {
      first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
      if (node != lane.front()) add_edge(node - 1, EdgeKind::order);
      for (const Node from : joined_[node - first_all_reduce()]) {
        add_edge(from, EdgeKind::all_reduce);
      }
    }
  }
}

}  // namespace unlatch
