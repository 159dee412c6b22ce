#include "schedules/program_checks.h"

#include <algorithm>
#include <utility>

#include "schedules/error.h"

namespace unlatch {

ProgramChecks::ProgramChecks(const Schedule& schedule, const ProgramFacts& facts)
    : schedule_(schedule), facts_(facts), shape_(schedule.shape()) {
  add_nodes();
  check_barriers();
  if (!out_of_range_ && shape_.copies > 1) check_copies();
  for (const Stage k : up_to<Stage>(shape_.stages)) check_work_of(k);
  check_partners();
  if (out_of_range_) return;  // what follows looks things up by stage and micro-batch
  for (const Rank r : up_to<Rank>(shape_.ranks())) check_order_of(r);
  if (!violations_.empty()) return;
  for (const Rank r : up_to<Rank>(shape_.ranks())) check_updates_of(r);
  if (!violations_.empty()) return;
  for (const Rank r : up_to<Rank>(shape_.ranks())) check_versions_of(r);
  if (is_served(shape_, schedule_.learning())) check_server_order();
}

// ---- nodes ---------------------------------------------------------------------------------

void ProgramChecks::add_nodes() {
  for (const Rank r : up_to<Rank>(shape_.ranks())) {
    first_node_.push_back(static_cast<Node>(tasks_.size()));
    int column = 0;
    for (ItemRuns::Cursor cursor(schedule_.programs()[r.value].runs()); cursor.next();) {
      if (cursor.item().kind == Item::Kind::task) add_node(cursor.item(), r, column++);
    }
  }
  first_node_.push_back(static_cast<Node>(tasks_.size()));
}

void ProgramChecks::add_node(const Item& item, Rank rank, int column) {
  const Node node = static_cast<Node>(tasks_.size());
  Task task;
  task.op = item.op;
  task.stage = item.stage;
  task.micro_batch = item.micro_batch;
  task.step = item.step;
  tasks_.push_back(task);
  ranks_.push_back(rank);
  read_versions_.push_back(item.version);
  columns_.push_back(item.column >= 0 ? item.column : column);
  from_file_ = from_file_ || item.column >= 0;
  if (!in_range(item)) {
    out_of_range_ = true;
    report("range", {node},
           fmt::format("{} at {}: stages are 0..{} and micro-batches 0..{}", label(task),
                       place(node), shape_.stages - 1, shape_.all_micro_batches() - 1));
    return;
  }
  std::vector<Node>& index = index_[static_cast<int>(item.op)];
  if (index.empty()) index.assign(std::size_t(shape_.stages) * shape_.all_micro_batches(), none);
  Node& entry =
      index[std::size_t(item.stage.value) * shape_.all_micro_batches() + item.micro_batch.value];
  if (entry != none) {
    report("duplicate", {entry, node},
           fmt::format("{} appears twice: at {} and at {}; each task runs once",
                       label(item.op, item.stage, item.micro_batch), place(entry), place(node)));
    return;
  }
  entry = node;
  if (item.op != Op::update && shape_.copy_of(item.stage) != shape_.copy_of(item.micro_batch)) {
    report("placement", {node},
           fmt::format("{} at {}: micro-batch {} belongs to copy {} of the model, stage {} to copy "
                       "{}",
                       label(task), place(node), item.micro_batch.value,
                       shape_.copy_of(item.micro_batch), item.stage.value,
                       shape_.copy_of(item.stage)));
  }
  if (schedule_.rank_of(item.stage) != rank) {
    report("placement", {node},
           fmt::format("{} at {}: stage {} is on ranks {} and {}; a stage has one rank",
                       label(task), place(node), item.stage.value,
                       schedule_.rank_of(item.stage).value, rank.value));
  }
}

bool ProgramChecks::in_range(const Item& item) const {
  return item.stage.value >= 0 && item.stage.value < shape_.stages && item.micro_batch.value >= 0 &&
         item.micro_batch.value < shape_.all_micro_batches();
}

ProgramChecks::Node ProgramChecks::find(Op op, Stage k, MicroBatch i) const {
  const std::vector<Node>& index = index_[static_cast<int>(op)];
  if (index.empty() || k.value < 0 || k.value >= shape_.stages || i.value < 0 ||
      i.value >= shape_.all_micro_batches()) {
    return none;
  }
  return index[std::size_t(k.value) * shape_.all_micro_batches() + i.value];
}

// ---- what a task takes ---------------------------------------------------------------------

ProgramChecks::Node ProgramChecks::output_of_forward(Stage k, MicroBatch i) const {
  const Node push = find(Op::push_forward, k, i);
  return push != none ? push : find(Op::forward, k, i);
}

ProgramChecks::Node ProgramChecks::output_of_backward(Stage k, MicroBatch i) const {
  Node node = find(Op::push_backward, k, i);
  if (node == none) node = find(Op::backward, k, i);
  if (node == none) node = find(Op::backward_input, k, i);
  return node;
}

/// What makes the input of F(k,i).
ProgramChecks::Node ProgramChecks::output_taken_by(Stage k, MicroBatch i) const {
  const Sources& sources = schedule_.learning().sources;
  return output_of_forward(k - 1, sources.empty() ? i : sources[k.value][i.value]);
}

/// B, or the I that stands for it, of a stage that works on what another stage sends it.
bool ProgramChecks::takes_gradient(const Task& task) const {
  return gives_input_gradient(task.op) && !shape_.is_last(task.stage) &&
         schedule_.learning().local_gradients.come_from_other_stage();
}

/// What makes the gradient that stage k works on or learns from; the loss is a part of the last
/// stage's F.
ProgramChecks::Node ProgramChecks::gradient_taken_by(Stage k, MicroBatch i) const {
  if (schedule_.learning().local_gradients.source == GradientSource::feedback)
    return find(Op::forward, shape_.last_of(k), i);
  return output_of_backward(k + 1, i);
}

// ---- checks --------------------------------------------------------------------------------

std::string ProgramChecks::place(Node node) const {
  if (from_file_) return fmt::format("row {}, column {}", rank_of(node).value, columns_[node]);
  return fmt::format("rank {}, place {}", rank_of(node).value, columns_[node]);
}

void ProgramChecks::report(std::string rule, const std::vector<Node>& nodes, std::string message) {
  Violation violation{std::move(rule), {}, -1, -1, std::move(message)};
  for (const Node node : nodes) violation.tasks.push_back(label(tasks_[node]));
  if (!nodes.empty()) {
    violation.row = rank_of(nodes.back()).value;
    violation.column = columns_[nodes.back()];
  }
  violations_.push_back(std::move(violation));
}

void ProgramChecks::check_work_of(Stage k) {
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
bool ProgramChecks::check_backward_of(Stage k, MicroBatch i) {
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
void ProgramChecks::check_partners() {
  const std::array<std::pair<Op, Op>, 2> pairs{
      {{Op::push_forward, Op::pop_forward}, {Op::push_backward, Op::pop_backward}}};
  for (const auto& [push, pop] : pairs) {
    const int hop = push == Op::push_forward ? 1 : -1;
    for (Node node = 0; node < std::ssize(tasks_); ++node) {
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

void ProgramChecks::check_order_of(Rank rank) {
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
    const bool takes_output = task.op == Op::forward || task.op == Op::pop_forward;
    if (takes_output && !shape_.is_first(k)) must_follow(node, output_taken_by(k, i));
    if (task.op == Op::pop_backward && !shape_.is_last(k))
      must_follow(node, gradient_taken_by(k, i));
    if (task.op == Op::backward_weight) must_follow(node, find(Op::backward_input, k, i));
  }
}

/// A gradient that no update applies is lost work, unless the schedule has no updates at all.
void ProgramChecks::check_updates_of(Rank rank) {
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

void ProgramChecks::check_barriers() {
  std::int64_t most = 0;
  for (const Program& program : schedule_.programs()) {
    std::int64_t count = 0;
    program.runs().count([&](const Item& item, std::int64_t times) {
      if (item.kind == Item::Kind::barrier) count += times;
    });
    if (most != 0 && count != most) {
      report("barrier", {},
             fmt::format("one rank meets {} barriers, another {}; every rank must "
                         "meet all of them",
                         most, count));
    }
    most = std::max(most, count);
  }
}

void ProgramChecks::check_copies() {
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    const std::int64_t mine = facts_.count(Op::update, k);
    const std::int64_t first = facts_.count(Op::update, shape_.model_stage(k));
    if (mine == first) continue;
    report("copies", {},
           fmt::format("stage {} is updated {} times in copy 0 of the model and {} times in copy "
                       "{}; the copies update together",
                       shape_.model_stage(k).value, first, mine, shape_.copy_of(k)));
  }
}

void ProgramChecks::check_server_order() {
  const Agreement& agreement = schedule_.learning().agreement;
  for (const Stage k : up_to<Stage>(agreement.order.empty() ? 0 : shape_.stages_a_copy())) {
    const std::int64_t each = facts_.count(Op::update, k);
    std::vector<std::int64_t> named(shape_.copies, 0);
    for (const int copy : agreement.order[k.value]) ++named[copy];
    if (std::ranges::all_of(named, [&](std::int64_t n) { return n == each; })) continue;
    report("copies", {},
           fmt::format("the order of the server's updates of stage {} must name each of the {} "
                       "copies {} times, once for each of its updates",
                       k.value, shape_.copies, each));
  }
}

/// Weights that no update has made yet cannot be read.
void ProgramChecks::check_versions_of(Rank rank) {
  std::vector<int> updates(shape_.stages, 0);
  for (Node node = first_node_[rank.value]; node < first_node_[rank.value + 1]; ++node) {
    const Task& task = tasks_[node];
    int& current = updates[task.stage.value];
    if (task.op == Op::update) ++current;
    const int version = read_versions_[node];
    if (task.op != Op::forward || version == newest || (version >= 0 && version <= current)) {
      continue;
    }
    report("version", {node},
           fmt::format("{} at {} reads version {} of the weights of stage {}, whose versions there "
                       "are 0..{}; a version exists after that many updates",
                       label(task), place(node), version, task.stage.value, current));
  }
}

std::pair<int, int> ProgramChecks::row_and_column(std::int32_t node) const {
  if (node < 0 || node >= std::ssize(tasks_)) return {-1, -1};
  return {rank_of(node).value, columns_[node]};
}

}  // namespace unlatch
