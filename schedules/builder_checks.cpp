// The builder's checks of what the programs must hold, whatever their order.
#include <algorithm>
#include <utility>

#include "schedules/builder.h"
#include "schedules/error.h"

namespace unlatch {

std::string Builder::place(Node node) const {
  if (from_file_) return fmt::format("row {}, column {}", rank_of(node).value, columns_[node]);
  return fmt::format("rank {}, place {}", rank_of(node).value, columns_[node]);
}

void Builder::report(std::string rule, const std::vector<Node>& nodes, std::string message) {
  Violation violation{std::move(rule), {}, -1, -1, std::move(message)};
  for (const Node node : nodes) violation.tasks.push_back(label(tasks_[node]));
  if (!nodes.empty()) {
    violation.row = rank_of(nodes.back()).value;
    violation.column = columns_[nodes.back()];
  }
  violations_.push_back(std::move(violation));
}

void Builder::check_programs() {
  for (const Stage k : up_to<Stage>(shape_.stages)) check_work_of(k);
  check_partners();
  if (out_of_range_) return;  // what follows looks things up by stage and micro-batch
  for (const Rank r : up_to<Rank>(shape_.ranks())) check_order_of(r);
  if (!violations_.empty()) return;
  for (const Rank r : up_to<Rank>(shape_.ranks())) check_updates_of(r);
}

void Builder::check_work_of(Stage k) {
  bool left_out = false;  // without drain a stage may leave out its last backwards, no others
  for (const MicroBatch i : up_to<MicroBatch>(shape_.all_micro_batches())) {
    if (shape_.copy_of(i) != shape_.copy_of(k)) continue;
    if (find(Op::forward, k, i) == none) {
      report("missing", {},
             fmt::format("{} is missing: stage {} must forward micro-batches 0..{}",
                         label(Op::forward, k, i), k.value, shape_.all_micro_batches() - 1));
      violations_.back().tasks = {label(Op::forward, k, i)};
      violations_.back().row = schedule_.rank_of(k).value;
    }
    const bool done = check_backward_of(k, i);
    const bool may_leave_out = !shape_.drain && !left_out;
    if (!done && !may_leave_out && !left_out) {
      const Node forward = find(Op::forward, k, i);
      std::string text = fmt::format("{} is missing", label(Op::backward, k, i));
      if (forward != none) text += fmt::format(", while {} exists", label(tasks_[forward]));
      if (forward != none && from_file_) text += fmt::format(" at {}", place(forward));
      report("missing", {}, std::move(text));
      violations_.back().tasks = {label(Op::backward, k, i)};
      violations_.back().row = schedule_.rank_of(k).value;
      if (forward != none && from_file_) violations_.back().column = columns_[forward];
    }
    if (done && left_out) {
      report("missing", {},
             fmt::format("{} exists, while the backward of an earlier micro-batch "
                         "of stage {} is missing",
                         label(Op::backward, k, i), k.value));
    }
    left_out = left_out || (!done && may_leave_out);
  }
}

/// True when the gradient of that micro-batch is computed, whole or in halves.
bool Builder::check_backward_of(Stage k, MicroBatch i) {
  const Node whole = find(Op::backward, k, i);
  const Node input = find(Op::backward_input, k, i);
  const Node weight = find(Op::backward_weight, k, i);
  if (whole != none && (input != none || weight != none)) {
    const Node half = input != none ? input : weight;
    report("duplicate", {whole, half},
           fmt::format("{} at {} and {} at {} do the same work twice", label(tasks_[whole]),
                       place(whole), label(tasks_[half]), place(half)));
  }
  if (input != none && weight == none) {
    report("missing", {input},
           fmt::format("weight gradient {} is never done, while {} exists at {}",
                       label(Op::backward_weight, k, i), label(tasks_[input]), place(input)));
  }
  if (weight != none && input == none && whole == none) {
    report("missing", {weight},
           fmt::format("{} at {} has no {} before it", label(tasks_[weight]), place(weight),
                       label(Op::backward_input, k, i)));
  }
  return whole != none || input != none || weight != none;
}

/// Every pop needs its push and every push its pop.
void Builder::check_partners() {
  const std::array<std::pair<Op, Op>, 2> pairs{
      {{Op::push_forward, Op::pop_forward}, {Op::push_backward, Op::pop_backward}}};
  for (const auto& [push, pop] : pairs) {
    const int hop = push == Op::push_forward ? 1 : -1;
    for (Node node = 0; node < first_barrier(); ++node) {
      const Task& task = tasks_[node];
      if (task.op != push && task.op != pop) continue;
      const Stage partner = task.stage + (task.op == push ? hop : -hop);
      const Op wanted = task.op == push ? pop : push;
      const bool left_in_flight = !shape_.drain && task.op == push;
      if (find(wanted, partner, task.micro_batch) == none && !left_in_flight) {
        report("missing", {node},
               fmt::format("{} at {} has no partner {}", label(task), place(node),
                           label(wanted, partner, task.micro_batch)));
      }
    }
  }
}

void Builder::check_order_of(Rank rank) {
  const auto must_follow = [&](Node later, Node earlier) {
    if (earlier == none || rank_of(earlier) != rank || earlier < later) return;
    report("order", {later, earlier},
           fmt::format("{} stands before {} on rank {} ({} {} and {}), but needs it",
                       label(tasks_[later]), label(tasks_[earlier]), rank.value,
                       from_file_ ? "columns" : "places", columns_[later], columns_[earlier]));
  };
  for (Node node = first_node_[rank.value]; node < first_node_[rank.value + 1]; ++node) {
    const Task& task = tasks_[node];
    const Stage k = task.stage;
    const MicroBatch i = task.micro_batch;
    if (task.op == Op::recompute || gives_input_gradient(task.op)) {
      must_follow(node, find(Op::forward, k, i));
    }
    if (gives_input_gradient(task.op)) {
      must_follow(node, find(Op::recompute, k, i));
      if (takes_gradient(task)) must_follow(node, gradient_taken_by(k, i));
    }
    if (task.op == Op::forward && !shape_.is_first(k)) must_follow(node, output_taken_by(k, i));
    if (task.op == Op::backward_weight) must_follow(node, find(Op::backward_input, k, i));
  }
}

/// A gradient that no update applies is lost work, unless the schedule has no updates at all.
void Builder::check_updates_of(Rank rank) {
  std::vector<Node> waiting(shape_.stages, none);
  bool updates = false;
  for (Node node = first_node_[rank.value]; node < first_node_[rank.value + 1]; ++node) {
    const Task& task = tasks_[node];
    Node& pending = waiting[task.stage.value];
    if (task.op == Op::update) {
      updates = true;
      if (pending == none) {
        report("missing", {node},
               fmt::format("the update at {} has no gradient to apply: stage {} "
                           "ran no backward since the last one",
                           place(node), task.stage.value));
      }
      pending = none;
    } else if (task.op == Op::backward || task.op == Op::backward_weight) {
      pending = node;
    }
  }
  for (const Node node : waiting) {
    if (updates && node != none && !schedule_.learning().leaves_gradients) {
      report("unfinished", {node},
             fmt::format("the gradient of {} at {} is never applied: no "
                         "update of stage {} follows",
                         label(tasks_[node]), place(node), tasks_[node].stage.value));
    }
  }
}

}  // namespace unlatch
