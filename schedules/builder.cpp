#include "schedules/builder.h"

#include <algorithm>
#include <utility>

#include "schedules/error.h"

namespace unlatch {

Builder::Builder(const Schedule& schedule) : schedule_(schedule), shape_(schedule.shape()) {
  make_lanes();
  make_nodes();
}

std::vector<Violation> Builder::violations() {
  if (prepare() && !number_nodes()) violations_.push_back(deadlock());
  return violations_;
}

TaskGraph Builder::build() {
  if (prepare() && !number_nodes()) violations_.push_back(deadlock());
  if (!violations_.empty()) {
    throw Error(fmt::format("{}: {}", schedule_.specification(), violations_.front().message));
  }
  return assemble();
}

// ---- nodes ---------------------------------------------------------------------------------

void Builder::make_lanes() {
  bool barriers = false;
  for (const Rank r : up_to<Rank>(shape_.ranks())) {
    bool recompute = false;
    for (const Item& item : schedule_.programs()[r.value].items()) {
      recompute = recompute || item.engine == Engine::recompute;
      barriers = barriers || item.kind == Item::Kind::barrier;
    }
    lanes_.push_back({r, Engine::compute, {}});
    if (recompute) lanes_.push_back({r, Engine::recompute, {}});
  }
  if (barriers) lanes_.push_back({Rank{0}, Engine::control, {}});
  for (const Stage k : up_to<Stage>(has_all_reduces() ? shape_.stages_a_copy() : 0)) {
    lanes_.push_back({schedule_.rank_of(k), Engine::all_reduce, k});
  }
  std::ranges::sort(lanes_);
  lanes_of_rank_.assign(shape_.ranks(), {-1, -1});
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    std::array<int, 2>& mine = lanes_of_rank_[lanes_[lane].rank.value];
    if (lanes_[lane].engine == Engine::compute) mine[0] = static_cast<int>(lane);
    if (lanes_[lane].engine == Engine::recompute) mine[1] = static_cast<int>(lane);
  }
  require(lanes_.size() <= 65535, "{}: {} ranks need {} lanes; at most 65535 fit a graph",
          schedule_.specification(), shape_.ranks(), lanes_.size());
}

void Builder::make_nodes() {
  std::int64_t items = 0;
  for (const Program& program : schedule_.programs()) items += std::ssize(program.items());
  require(items < Edge::max_tasks, "{}: {} tasks do not fit one graph (at most {})",
          schedule_.specification(), items, Edge::max_tasks);
  tasks_.reserve(items);
  columns_.reserve(items);
  for (const Rank r : up_to<Rank>(shape_.ranks())) {
    first_node_.push_back(static_cast<Node>(tasks_.size()));
    int column = 0;
    for (const Item& item : schedule_.programs()[r.value].items()) {
      if (item.kind == Item::Kind::task) add_node(item, r, column++);
    }
  }
  first_node_.push_back(static_cast<Node>(tasks_.size()));
  add_barrier_nodes();
  if (out_of_range_) return;
  if (shape_.copies > 1) collect_updates();
  if (has_all_reduces()) add_all_reduce_nodes();
}

void Builder::add_node(const Item& item, Rank rank, int column) {
  const Node node = static_cast<Node>(tasks_.size());
  Task task;
  task.op = item.op;
  task.stage = item.stage;
  task.micro_batch = item.micro_batch;
  task.step = item.step;
  task.lane = static_cast<std::uint16_t>(lane_index(rank, item.engine));
  tasks_.push_back(task);
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

void Builder::add_barrier_nodes() {
  std::size_t most = 0;
  for (const Program& program : schedule_.programs()) {
    const auto count = std::count_if(program.items().begin(), program.items().end(),
                                     [](const Item& i) { return i.kind == Item::Kind::barrier; });
    if (most != 0 && static_cast<std::size_t>(count) != most) {
      report("barrier", {},
             fmt::format("one rank meets {} barriers, another {}; every rank must "
                         "meet all of them",
                         most, count));
    }
    most = std::max(most, static_cast<std::size_t>(count));
  }
  for (std::size_t j = 0; j < most; ++j) {
    Task task;
    task.op = Op::barrier;
    task.step = static_cast<std::int32_t>(j);
    task.lane = find_lane({Rank{0}, Engine::control, {}});
    tasks_.push_back(task);
    columns_.push_back(static_cast<std::int32_t>(j));
  }
  before_barrier_.resize(most);
}

bool Builder::in_range(const Item& item) const {
  return item.stage.value >= 0 && item.stage.value < shape_.stages && item.micro_batch.value >= 0 &&
         item.micro_batch.value < shape_.all_micro_batches();
}

Builder::Node Builder::find(Op op, Stage k, MicroBatch i) const {
  const std::vector<Node>& index = index_[static_cast<int>(op)];
  if (index.empty() || k.value < 0 || k.value >= shape_.stages || i.value < 0 ||
      i.value >= shape_.all_micro_batches()) {
    return none;
  }
  return index[std::size_t(k.value) * shape_.all_micro_batches() + i.value];
}

int Builder::lane_index(Rank rank, Engine engine) const {
  return lanes_of_rank_[rank.value][engine == Engine::recompute ? 1 : 0];
}

std::uint16_t Builder::find_lane(const Lane& lane) const {
  return static_cast<std::uint16_t>(std::ranges::lower_bound(lanes_, lane) - lanes_.begin());
}

// ---- versions, flags, edges ----------------------------------------------------------------

bool Builder::prepare() {
  check_programs();
  if (!violations_.empty()) return false;
  for (const Rank r : up_to<Rank>(shape_.ranks())) derive_versions(r);
  if (is_served(shape_, schedule_.learning())) serve_updates();
  if (!violations_.empty()) return false;
  edges_.reserve(tasks_.size() * 2);
  first_edge_.reserve(tasks_.size() + 1);
  lane_end_.assign(lanes_.size(), none);
  newest_gradient_.assign(shape_.stages, none);
  pending_.resize(shape_.stages);
  for (const Rank r : up_to<Rank>(shape_.ranks())) add_edges_of(r);
  add_barrier_edges();
  add_all_reduce_edges();
  first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
  return true;
}

void Builder::add_edges_of(Rank rank) {
  phase_ = none;
  barriers_passed_ = 0;
  Node node = first_node_[rank.value];
  int pending_barrier = none;
  for (const Item& item : schedule_.programs()[rank.value].items()) {
    if (item.kind == Item::Kind::after) {
      phase_ = find(item.op, item.stage, item.micro_batch);
      continue;
    }
    if (item.kind == Item::Kind::barrier) {
      for (const int lane : lanes_of_rank_[rank.value]) {
        if (lane >= 0 && lane_end_[lane] != none) {
          before_barrier_[barriers_passed_].push_back(lane_end_[lane]);
        }
      }
      pending_barrier = first_barrier() + barriers_passed_++;
      continue;
    }
    first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
    const int lane = tasks_[node].lane;
    if (lane_end_[lane] != none) add_edge(lane_end_[lane], EdgeKind::order);
    if (pending_barrier != none && item.engine == Engine::compute) {
      add_edge(std::exchange(pending_barrier, none), EdgeKind::barrier);
    }
    add_edges_into(node, item);
    if (shape_.copies > 1) join_copies(node);
    lane_end_[lane] = node++;
  }
}

void Builder::add_edges_into(Node node, const Item& item) {
  // An earlier task of the same rank is behind us anyway; a later one is a deadlock to be named.
  if (phase_ != none && (rank_of(phase_) != rank_of(node) || phase_ > node)) {
    add_edge(phase_, EdgeKind::phase);
  }
  phase_ = none;
  const Task& task = tasks_[node];
  if (item.engine == Engine::recompute) {
    add_recompute_edges(node, item.beside_previous);
  } else if (item.op == Op::push_forward || item.op == Op::push_backward) {
    const Node partner = node - 1;  // R beside the F whose output is pushed: both must be done
    if (tasks_[partner].op == Op::recompute && tasks_[partner].lane != task.lane) {
      add_edge(partner, EdgeKind::local);
    }
    add_queue_edge(node, item.capacity);
  } else {
    add_data_edges(node);
  }
}

Builder::Node Builder::output_of_forward(Stage k, MicroBatch i) const {
  const Node push = find(Op::push_forward, k, i);
  return push != none ? push : find(Op::forward, k, i);
}

Builder::Node Builder::output_of_backward(Stage k, MicroBatch i) const {
  Node node = find(Op::push_backward, k, i);
  if (node == none) node = find(Op::backward, k, i);
  if (node == none) node = find(Op::backward_input, k, i);
  return node;
}

/// What makes the input of F(k,i).
Builder::Node Builder::output_taken_by(Stage k, MicroBatch i) const {
  const Sources& sources = schedule_.learning().sources;
  return output_of_forward(k - 1, sources.empty() ? i : sources[k.value][i.value]);
}

/// B, or the I that stands for it, of a stage that works on what another stage sends it.
bool Builder::takes_gradient(const Task& task) const {
  return gives_input_gradient(task.op) && !shape_.is_last(task.stage) &&
         schedule_.learning().local_gradients.come_from_other_stage();
}

/// What makes the gradient that stage k works on or learns from; the loss is a part of the last
/// stage's F.
Builder::Node Builder::gradient_taken_by(Stage k, MicroBatch i) const {
  if (gradient_source() == GradientSource::feedback) return find(Op::forward, shape_.last_of(k), i);
  return output_of_backward(k + 1, i);
}

void Builder::add_data_edges(Node node) {
  const Task& task = tasks_[node];
  const Stage k = task.stage;
  const MicroBatch i = task.micro_batch;
  const auto from_other_lane = [&](Node from, EdgeKind kind) {
    if (from != none && tasks_[from].lane != task.lane) add_edge(from, kind);
  };
  const bool takes_activation =
      task.op == Op::pop_forward || (task.op == Op::forward && find(Op::pop_forward, k, i) == none);
  if (takes_activation && !shape_.is_first(k)) {
    from_other_lane(output_taken_by(k, i), EdgeKind::activation);
  }
  const bool waits =
      task.op == Op::pop_backward || (takes_gradient(task) && find(Op::pop_backward, k, i) == none);
  if (waits && !shape_.is_last(k)) {
    from_other_lane(gradient_taken_by(k, i), EdgeKind::gradient);
  }
  if (gives_input_gradient(task.op)) from_other_lane(find(Op::recompute, k, i), EdgeKind::local);
}

void Builder::add_recompute_edges(Node node, bool beside) {
  const Rank rank = rank_of(node);
  if (!beside) {  // drain: the newest weights, and the stored input that came long before
    const Node before = lane_end_[lane_index(rank, Engine::compute)];
    if (before != none) {
      add_edge(before, tasks_[before].op == Op::update ? EdgeKind::version : EdgeKind::local);
    }
    return;
  }
  const Node forward = node - 1;
  for (std::uint32_t e = first_edge_[forward]; e < first_edge_[node]; ++e) {
    NodeEdge edge = edges_[e];
    if (edge.kind == EdgeKind::order) {
      edge.kind = tasks_[edge.from].op == Op::update ? EdgeKind::version : EdgeKind::local;
    }
    edges_.push_back(edge);
  }
  add_edge(forward, EdgeKind::beside);
}

void Builder::add_queue_edge(Node node, int capacity) {
  if (capacity == unbounded) return;
  const Task& task = tasks_[node];
  const bool forward = task.op == Op::push_forward;
  const Node pop = find(forward ? Op::pop_forward : Op::pop_backward,
                        forward ? task.stage + 1 : task.stage - 1, task.micro_batch - capacity);
  if (pop != none) add_edge(pop, EdgeKind::queue);
}

void Builder::add_barrier_edges() {
  for (std::size_t j = 0; j < before_barrier_.size(); ++j) {
    first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
    if (j > 0) add_edge(first_barrier() + static_cast<Node>(j) - 1, EdgeKind::order);
    for (const Node before : before_barrier_[j]) add_edge(before, EdgeKind::barrier);
  }
}

}  // namespace unlatch
